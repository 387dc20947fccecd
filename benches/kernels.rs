//! The reference kernels on the matrix shapes of the smallest GPT-2: `cargo bench --bench kernels`.
//!
//! Native builds only have the scalar kernels, which define the results. `./build.sh bench` measures the vector kernels
//! in browsers.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use gpt2_web::kernels::attention::{self, KeyGroup, ValuePair};
use gpt2_web::kernels::exp::exp;
use gpt2_web::kernels::{self, ActivationBlock, BLOCK, DEFAULT_READERS as READERS, GROUP, MatmulFn, PackedBlock};

/// Outputs and inputs of the matrices of a transformer block.
const SHAPES: [(usize, usize); 4] = [(2304, 768), (768, 768), (3072, 768), (768, 3072)];

fn product<W: PackedBlock>(criterion: &mut Criterion, precision: &str, product: MatmulFn<W>) {
    let mut group = criterion.benchmark_group(format!("{precision} product"));
    for (outputs, inputs) in SHAPES {
        let mut weights = vec![W::ZERO; outputs / GROUP * (inputs / BLOCK)];
        for (index, block) in weights.iter_mut().enumerate() {
            for output in 0..GROUP {
                block.set(output, &std::array::from_fn(|input| W::NUMBERS[(index + input) % 7]), 0.01);
            }
        }
        for rows in [1, 12] {
            let x: Vec<f32> = (0..rows * inputs).map(|index| (index % 17) as f32 - 8.0).collect();
            let (mut quantised, mut out) = (vec![ActivationBlock::EMPTY; x.len() / BLOCK], vec![0.0; rows * outputs]);
            group.throughput(Throughput::Elements((rows * outputs * inputs) as u64));
            group.bench_function(BenchmarkId::new(format!("{outputs}x{inputs}"), rows), |bencher| {
                bencher.iter(|| product(black_box(&weights), &x, inputs, &mut quantised, &mut out, outputs, READERS));
            });
        }
    }
}

fn products(criterion: &mut Criterion) {
    product(criterion, "q8_0", kernels::selected().q8);
    product(criterion, "q4_0", kernels::selected().q4);
}

/// The keys and values of one head of 64 numbers, at 512 positions.
fn attention(criterion: &mut Criterion) {
    let (keys, query) = (vec![KeyGroup::default(); 512 / 4 * 32], [[5, -7]; 32]);
    let (values, weights) = (vec![ValuePair::default(); 512 / 2 * 64], [[5, 7]; 256]);
    let (scales, mut scores, mut sums) = ([[1.0; 4]; 128], [[0.0; 4]; 128], [0; 64]);
    criterion.bench_function("keys", |bencher| {
        bencher.iter(|| attention::qk_dot(black_box(&keys), &query, &scales, 0.1, &mut scores));
    });
    criterion.bench_function("values", |bencher| {
        bencher.iter(|| {
            sums.fill(0);
            attention::add_weighted_values(&mut sums, black_box(&values), &weights);
        });
    });
    let mut numbers = [0.0f32; 512];
    criterion.bench_function("exp", |bencher| {
        bencher.iter(|| {
            for (index, number) in numbers.iter_mut().enumerate() {
                *number = exp(-(index as f32) * 0.05);
            }
            black_box(&mut numbers);
        });
    });
}

criterion_group!(benches, products, attention);
criterion_main!(benches);
