//! The layout of quantised weights in memory.
//!
//! The blocks of four outputs are interleaved, so that one vector register holds weights of all four outputs and each sum
//! has its own lane. Scales are stored as floats after the weights of their blocks, so that a product reads each group of
//! four outputs sequentially.

use super::{BLOCK, GROUP};

/// The interleaved blocks of four outputs.
pub trait PackedBlock: Copy + PartialEq + 'static {
    /// Four blocks of zeros.
    const ZERO: Self;

    /// The minimum, the maximum and some numbers between them, for tests.
    const NUMBERS: [i8; 7];

    /// Writes the block of one of the four outputs and its scale.
    fn set(&mut self, output: usize, numbers: &[i8; BLOCK], scale: f32);

    /// The block of one of the four outputs and its scale.
    fn get(&self, output: usize) -> ([i8; BLOCK], f32);
}

/// The offset of stored 8-bit numbers, which is also their sign bit. Instructions with an unsigned operand use the stored
/// numbers; the other kernels restore the sign, mostly at no cost.
pub(super) const SIGN: u8 = 1 << 7;

/// Four blocks of 8-bit numbers, -128 to 127, stored as 0 to 255.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C, align(16))]
pub struct Q8x4 {
    /// `[input / 4, output, input % 4]`.
    pub(super) quads: [[u8; 4 * GROUP]; BLOCK / 4],
    pub(super) scales: [f32; GROUP],
}

impl PackedBlock for Q8x4 {
    const ZERO: Self = Self { quads: [[SIGN; 16]; 8], scales: [0.0; GROUP] };
    const NUMBERS: [i8; 7] = [-128, 127, -127, 0, 1, -65, 98];

    fn set(&mut self, output: usize, numbers: &[i8; BLOCK], scale: f32) {
        for (quad, numbers) in self.quads.iter_mut().zip(numbers.as_chunks::<4>().0) {
            // One 32-bit operation instead of four: a large model has a billion weights.
            let word = u32::from_ne_bytes(numbers.map(|number| number as u8)) ^ u32::from_ne_bytes([SIGN; 4]);
            quad.as_chunks_mut::<4>().0[output] = word.to_ne_bytes();
        }
        self.scales[output] = scale;
    }

    fn get(&self, output: usize) -> ([i8; BLOCK], f32) {
        let mut numbers = [0; BLOCK];
        for (quad, numbers) in self.quads.iter().zip(numbers.as_chunks_mut::<4>().0) {
            for (number, byte) in numbers.iter_mut().zip(&quad[4 * output..][..4]) {
                *number = (byte ^ SIGN) as i8;
            }
        }
        (numbers, self.scales[output])
    }
}

/// Four blocks of 4-bit numbers, -8 to 7, stored as 0 to 15.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C, align(16))]
pub struct Q4x4 {
    /// `[input / 8, output, 4 bytes]`. [`place`] gives the position of an input in the four bytes.
    pub(super) eights: [[u8; 4 * GROUP]; BLOCK / 8],
    pub(super) scales: [f32; GROUP],
}

/// The offset of stored 4-bit numbers.
pub(super) const OFFSET: i8 = 8;

/// The byte, of the four of an output, and the shift in it where `input`, of eight, is stored.
///
/// In the two 16-bit lanes of the four bytes, an even input and the next odd one have the same position. So a mask is
/// enough to get adjacent inputs into adjacent lanes, as instructions that multiply and add pairs need them.
pub(super) const fn place(input: usize) -> (usize, u32) {
    let (pair, odd) = (input / 2, input % 2);
    (2 * odd + pair / 2, 4 * (pair % 2) as u32)
}

impl PackedBlock for Q4x4 {
    const ZERO: Self = Self { eights: [[OFFSET as u8 * 0x11; 16]; 4], scales: [0.0; GROUP] };
    const NUMBERS: [i8; 7] = [-8, 7, -7, 0, 1, -3, 5];

    fn set(&mut self, output: usize, numbers: &[i8; BLOCK], scale: f32) {
        for (eight, numbers) in self.eights.iter_mut().zip(numbers.as_chunks::<8>().0) {
            let bytes = &mut eight[4 * output..][..4];
            bytes.fill(0);
            for (input, &number) in numbers.iter().enumerate() {
                debug_assert!((-8..8).contains(&number), "{number} has more than 4 bits");
                let (byte, shift) = place(input);
                bytes[byte] |= (number.wrapping_add(OFFSET) as u8 & 0xf) << shift;
            }
        }
        self.scales[output] = scale;
    }

    fn get(&self, output: usize) -> ([i8; BLOCK], f32) {
        let mut numbers = [0; BLOCK];
        for (eight, numbers) in self.eights.iter().zip(numbers.as_chunks_mut::<8>().0) {
            for (input, number) in numbers.iter_mut().enumerate() {
                let (byte, shift) = place(input);
                *number = (eight[4 * output + byte] >> shift & 0xf) as i8 - OFFSET;
            }
        }
        (numbers, self.scales[output])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn there_and_back<W: PackedBlock + std::fmt::Debug>(blocks: &[[i8; BLOCK]; GROUP], scales: [f32; GROUP]) {
        let mut held = W::ZERO;
        for (output, (numbers, scale)) in blocks.iter().zip(scales).enumerate() {
            held.set(output, numbers, scale);
        }
        for (output, (numbers, scale)) in blocks.iter().zip(scales).enumerate() {
            let (got, got_scale) = held.get(output);
            assert_eq!((&got, got_scale.to_bits()), (numbers, scale.to_bits()));
        }
        assert_eq!(W::ZERO.get(2), ([0; BLOCK], 0.0));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(numbers: [[i8; BLOCK]; GROUP], scales: [f32; GROUP]) {
            there_and_back::<Q8x4>(&numbers, scales);
            there_and_back::<Q4x4>(&numbers.map(|row| row.map(|number| number >> 4)), scales);
        }
    }
}
