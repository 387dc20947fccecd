//! Compares the kernels of every instruction set of this browser with the reference, bit for bit.

use gpt2_web::gpt2::Precision;
use gpt2_web::gpt2::checkpoint::{self, ModelFile};
use gpt2_web::kernels::exp::{exp, exp_all, exp_each};
use gpt2_web::kernels::{self, ActivationBlock, BLOCK, GROUP, KernelSet, MatmulFn, PackedBlock, READERS, attention};
use gpt2_web::model::LanguageModel;
use wasm_bindgen_test::wasm_bindgen_test;

/// The kernels that this build and this browser support, the reference last.
fn all() -> Vec<&'static KernelSet> {
    let mut all = vec![];
    #[cfg(feature = "relaxed")]
    if gpt2_web::web::relaxed::install().unwrap() {
        all.push(kernels::selected());
    }
    if !std::ptr::eq(kernels::BUILT_IN, kernels::SCALAR) {
        all.push(kernels::BUILT_IN);
    }
    all.push(kernels::SCALAR);
    all
}

/// Pseudorandom numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as u32) % end
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u32) as usize]
    }

    /// Random weights with many extreme values, and random scales including special values.
    fn weights<W: PackedBlock>(&mut self, count: usize) -> Vec<W> {
        let mut weights = vec![W::ZERO; count];
        for block in &mut weights {
            for output in 0..GROUP {
                let scale = match self.below(8) {
                    0 => self.one_of(&[0.0, -0.0, f32::from_bits(1), 65504.0, f32::INFINITY, f32::NAN]),
                    _ => self.below(2001) as f32 / 1000.0 - 1.0,
                };
                block.set(output, &std::array::from_fn(|_| self.one_of(&W::NUMBERS)), scale);
            }
        }
        weights
    }

    fn activation(&mut self) -> f32 {
        match self.below(100) {
            0 => self.one_of(&[0.0, f32::from_bits(3), 1e30, -1e30, f32::INFINITY, f32::NAN]),
            _ => self.below(2001) as f32 / 100.0 - 10.0,
        }
    }
}

/// The bits of a product, with one value for all NaNs.
fn bits<W>(product: MatmulFn<W>, weights: &[W], x: &[f32], inputs: usize, outputs: usize, readers: usize) -> Vec<u32> {
    let mut out = vec![7.0; x.len() / inputs * outputs];
    product(weights, x, inputs, &mut vec![ActivationBlock::EMPTY; x.len() / BLOCK], &mut out, outputs, readers);
    out.into_iter().map(|number: f32| if number.is_nan() { u32::MAX } else { number.to_bits() }).collect()
}

fn agree<W: PackedBlock>(name: &str, product: MatmulFn<W>, reference: MatmulFn<W>) {
    let mut random = Random(1);
    for case in 0..200 {
        let (blocks, outputs, rows) =
            (1 + random.below(5) as usize, 1 + random.below(90) as usize, 1 + random.below(10) as usize);
        let weights = random.weights::<W>(outputs.div_ceil(GROUP) * blocks);
        let x: Vec<f32> = (0..rows * blocks * BLOCK).map(|_| random.activation()).collect();
        let expected = bits(reference, &weights, &x, blocks * BLOCK, outputs, READERS[0]);
        for readers in READERS {
            let got = bits(product, &weights, &x, blocks * BLOCK, outputs, readers);
            let shape = format!("{blocks} blocks, {outputs} outputs, {rows} rows, {readers} readers");
            assert_eq!(got, expected, "{name}, case {case}: {shape}");
        }
    }
}

#[wasm_bindgen_test]
fn every_product_is_the_reference_to_the_bit() {
    for products in all() {
        agree(products.name, products.q8, kernels::SCALAR.q8);
        agree(products.name, products.q4, kernels::SCALAR.q4);
    }
}

#[wasm_bindgen_test]
fn exponentials_of_slices_are_those_of_single_numbers_to_the_bit() {
    let ends =
        [0.0, -0.0, -86.999_99, -87.0, -87.000_01, -88.0, -1e30, -f32::MAX, f32::NEG_INFINITY, f32::NAN, -f32::NAN];
    let numbers: Vec<f32> = (-9000..0).map(|step| step as f32 * 0.0101).chain(ends).collect();
    for (len, max) in (0..20).map(|len| (len, 0.25)).chain([(numbers.len(), 0.0), (numbers.len(), 3.7)]) {
        let numbers = &numbers[numbers.len() - len..];
        let mut got = numbers.to_vec();
        exp_each(&mut got, max);
        for (got, number) in got.into_iter().zip(numbers) {
            let expected = exp(number - max);
            assert!(got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan(), "{got} of {number}");
        }
    }
}

#[wasm_bindgen_test]
fn exponentials_of_any_numbers_are_those_of_single_numbers_to_the_bit() {
    let ends =
        [-87.0, -87.1, 88.3, 88.300_01, 88.4, 1e30, -1e30, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -f32::NAN];
    let numbers: Vec<f32> = (-9000..9000).map(|step| step as f32 * 0.0101).chain(ends).collect();
    for len in (0..20).chain([numbers.len()]) {
        let numbers = &numbers[numbers.len() - len..];
        let mut got = numbers.to_vec();
        exp_all(&mut got);
        for (got, number) in got.into_iter().zip(numbers) {
            let expected = exp(*number);
            assert!(got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan(), "{got} of {number}");
        }
    }
}

#[wasm_bindgen_test]
fn a_sum_of_exponentials_is_added_in_one_order() {
    for len in 1..70 {
        let numbers: Vec<f32> = (0..len).map(|at| (at * 7919 % 97) as f32 * -0.173).collect();
        let powers: Vec<f32> = numbers.iter().map(|number| exp(*number)).collect();
        let (fours, rest) = powers.as_chunks::<4>();
        let lanes = (0..4).map(|lane| fours.iter().fold(0.0, |sum, four| sum + four[lane]));
        let expected = lanes.chain(rest.iter().copied()).fold(0.0, |sum, power| sum + power);
        assert_eq!(exp_each(&mut numbers.clone(), 0.0).to_bits(), expected.to_bits(), "of {len}");
    }
}

/// A pseudorandom number from `-max` to `max` for the index `at`.
fn number(at: usize, max: i32) -> i16 {
    (at.wrapping_mul(40503).wrapping_add(at * at * 7) as i32 % (2 * max + 1) - max) as i16
}

#[wasm_bindgen_test]
fn products_of_keys_are_their_definition_to_the_bit() {
    for (groups, pairs) in (0..23).map(|groups| (groups, 32)).chain((1..20).map(|pairs| (9, pairs))) {
        let keys: Vec<attention::KeyGroup> = (0..groups * pairs)
            .map(|at| std::array::from_fn(|row| [number(8 * at + row, 2047), number(8 * at + row + 4, 2047)]))
            .collect();
        let query: Vec<[i16; 2]> = (0..pairs).map(|at| [number(3 * at, 1023), number(5 * at, 1023)]).collect();
        let scales: Vec<[f32; 4]> =
            (0..groups).map(|at| std::array::from_fn(|row| (at + 9 * row) as f32 * 0.07)).collect();
        let mut got = vec![[f32::NAN; 4]; groups];
        attention::qk_dot(&keys, &query, &scales, 0.3, &mut got);
        for (row, got) in got.as_flattened().iter().enumerate() {
            let product = |pair: usize, side: usize| {
                i32::from(keys[row / 4 * pairs + pair][row % 4][side]) * i32::from(query[pair][side])
            };
            let sum: i32 = (0..pairs).map(|pair| product(pair, 0) + product(pair, 1)).sum();
            let expected = sum as f32 * (scales[row / 4][row % 4] * 0.3);
            assert_eq!(got.to_bits(), expected.to_bits(), "row {row} of {groups} times {pairs}");
        }
    }
}

#[wasm_bindgen_test]
fn weighted_values_are_their_definition() {
    for (rows, width) in (1..23).map(|rows| (rows, 64)).chain((1..20).map(|width| (9, 4 * width))).chain([(64, 64)]) {
        let values: Vec<attention::ValuePair> =
            (0..rows * width).map(|at| [number(at, 127) as i8, number(7 * at, 127) as i8]).collect();
        let weights: Vec<[i16; 2]> = (0..rows).map(|at| [number(3 * at, 16383), number(5 * at, 16383)]).collect();
        let mut got: Vec<i32> = (0..width as i32).collect();
        attention::add_weighted_values(&mut got, &values, &weights);
        for (column, got) in got.into_iter().enumerate() {
            let term =
                |row: usize, side: usize| i32::from(values[row * width + column][side]) * i32::from(weights[row][side]);
            let expected = column as i32 + (0..rows).map(|row| term(row, 0) + term(row, 1)).sum::<i32>();
            assert_eq!(got, expected, "column {column} of {rows} rows of {width}");
        }
    }
}

#[wasm_bindgen_test]
fn every_product_writes_the_same() {
    let file = [ModelFile { name: "tiny.gguf", bytes: super::TINY_F32 }];
    for precision in [Precision::Q8_0, Precision::Q4_0] {
        let logits = |products: &'static KernelSet| {
            kernels::select(products);
            let mut model = checkpoint::load(&file, Some(precision), &mut |_, _| {}).unwrap().model;
            let mut all: Vec<u32> = Vec::new();
            for ids in [&[1, 2, 3, 4, 5, 6, 7][..], &[250], &[9, 8], &[299]] {
                all.extend(model.feed(ids).unwrap().iter().map(|logit| logit.to_bits()));
            }
            all
        };
        let before = kernels::selected();
        let reference = logits(kernels::SCALAR);
        for products in all() {
            assert_eq!(logits(products), reference, "{precision:?} by {}", products.name);
        }
        kernels::select(before);
    }
}

/// The relaxed kernels with emulated instructions of other processors.
#[cfg(target_feature = "simd128")]
mod processors {
    use core::arch::wasm32::{
        i8x16_splat, i16x8_extend_high_i8x16, i16x8_extend_high_u8x16, i16x8_extend_low_i8x16, i16x8_extend_low_u8x16,
        i16x8_narrow_i32x4, i32x4_add, i32x4_dot_i16x8, i32x4_extadd_pairwise_i16x8, i32x4_extract_lane, i32x4_shuffle,
        i32x4_splat, v128,
    };

    use gpt2_web::kernels::matmul::matmul_t;
    use gpt2_web::kernels::relaxed::{Dot, Fours4, Instructions, Pairs4, Pairs8, Signed8, Unsigned8};
    use gpt2_web::kernels::{Q4x4, Q8x4, SCALAR};
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::agree;

    /// Products of 16-bit numbers, adjacent ones added in 32 bits.
    fn added(a: [v128; 2], b: [v128; 2]) -> [v128; 2] {
        [i32x4_dot_i16x8(a[0], b[0]), i32x4_dot_i16x8(a[1], b[1])]
    }

    fn signed(a: v128) -> [v128; 2] {
        [i16x8_extend_low_i8x16(a), i16x8_extend_high_i8x16(a)]
    }

    fn unsigned(a: v128) -> [v128; 2] {
        [i16x8_extend_low_u8x16(a), i16x8_extend_high_u8x16(a)]
    }

    fn fours([low, high]: [v128; 2], sums: v128) -> v128 {
        let four = i32x4_add(i32x4_shuffle::<0, 2, 4, 6>(low, high), i32x4_shuffle::<1, 3, 5, 7>(low, high));
        i32x4_add(four, sums)
    }

    /// `vpmaddubsw`, then adjacent sums added.
    struct Saturating;

    impl Instructions for Saturating {
        fn pairs(a: v128, b: v128) -> v128 {
            let [low, high] = added(signed(a), unsigned(b));
            i16x8_narrow_i32x4(low, high)
        }

        fn fours(a: v128, b: v128, sums: v128) -> v128 {
            i32x4_add(i32x4_extadd_pairwise_i16x8(Self::pairs(a, b)), sums)
        }
    }

    /// `vpdpbusd`.
    struct WithoutSign;

    impl Instructions for WithoutSign {
        fn pairs(a: v128, b: v128) -> v128 {
            Saturating::pairs(a, b)
        }

        fn fours(a: v128, b: v128, sums: v128) -> v128 {
            fours(added(signed(a), unsigned(b)), sums)
        }
    }

    /// `sdot`.
    struct WithSign;

    impl Instructions for WithSign {
        fn pairs(a: v128, b: v128) -> v128 {
            let [low, high] = added(signed(a), signed(b));
            i16x8_narrow_i32x4(low, high)
        }

        fn fours(a: v128, b: v128, sums: v128) -> v128 {
            fours(added(signed(a), signed(b)), sums)
        }
    }

    fn kind<I: Instructions>() -> Dot {
        let (first, second) = Dot::PROBE;
        let sums = I::fours(i8x16_splat(first), i8x16_splat(second as i8), i32x4_splat(0));
        Dot::of(i32x4_extract_lane::<0>(sums))
    }

    #[wasm_bindgen_test]
    fn each_kind_of_processor_is_known_and_has_exact_kernels() {
        assert_eq!(kind::<Saturating>(), Dot::Pairs);
        agree::<Q8x4>("pairs8", matmul_t::<Pairs8<Saturating>>, SCALAR.q8);
        agree::<Q4x4>("pairs4", matmul_t::<Pairs4<Saturating>>, SCALAR.q4);
        assert_eq!(kind::<WithoutSign>(), Dot::Unsigned);
        agree::<Q8x4>("unsigned8", matmul_t::<Unsigned8<WithoutSign>>, SCALAR.q8);
        agree::<Q4x4>("fours4 without sign", matmul_t::<Fours4<WithoutSign>>, SCALAR.q4);
        assert_eq!(kind::<WithSign>(), Dot::Signed);
        agree::<Q8x4>("signed8", matmul_t::<Signed8<WithSign>>, SCALAR.q8);
        agree::<Q4x4>("fours4 with sign", matmul_t::<Fours4<WithSign>>, SCALAR.q4);
        // The portable kernels must be exact on every processor.
        agree::<Q8x4>("pairs8 with sign", matmul_t::<Pairs8<WithSign>>, SCALAR.q8);
        agree::<Q4x4>("pairs4 with sign", matmul_t::<Pairs4<WithSign>>, SCALAR.q4);
    }
}

/// The browsers of this test support relaxed SIMD, so this fails if they reject the module.
#[cfg(feature = "relaxed")]
#[wasm_bindgen_test]
fn the_relaxed_products_are_used() {
    assert!(gpt2_web::web::relaxed::install().unwrap());
    assert_eq!(kernels::selected().name, "relaxed-simd");
}
