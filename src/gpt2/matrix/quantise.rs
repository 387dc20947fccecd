//! Blocks of 32 numbers with one scale, as GGUF defines them: quantised from floats, or read from a file.

use half::f16;

use crate::kernels::BLOCK;

/// Integers, and the scale they are multiplied by. The scale is exact in half precision.
pub type QuantBlock = ([i8; BLOCK], f32);

/// Bytes of a `q8_0` block in a file: the scale, then the integers.
pub const Q8_0_BYTES: usize = 2 + BLOCK;

/// Bytes of a `q4_0` block in a file: the scale, then 16 bytes with the first half of the integers below the second.
pub const Q4_0_BYTES: usize = 2 + BLOCK / 2;

/// Integers from -127 to 127, the largest absolute value is one of the two. The numbers are finite.
pub fn to_q8_0(numbers: &[f32; BLOCK]) -> QuantBlock {
    // Four side by side, and by a comparison: that is one instruction for four of them.
    let mut greatest = [0.0f32; 4];
    for four in numbers.as_chunks::<4>().0 {
        for (greatest, number) in greatest.iter_mut().zip(four) {
            *greatest = if number.abs() > *greatest { number.abs() } else { *greatest };
        }
    }
    let greatest = greatest.into_iter().fold(0.0, f32::max);
    let scale = greatest / 127.0;
    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    (numbers.map(|number| round_away(number * inverse) as i8), f16::from_f32(scale).to_f32())
}

/// Integers from -8 to 7, the largest absolute value is -8. The numbers are finite.
pub fn to_q4_0(numbers: &[f32; BLOCK]) -> QuantBlock {
    let greatest = numbers.iter().fold(
        0.0,
        |greatest: f32, &number| {
            if number.abs() > greatest.abs() { number } else { greatest }
        },
    );
    let scale = greatest / -8.0;
    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    (numbers.map(|number| ((number * inverse + 8.5) as i32).min(15) as i8 - 8), f16::from_f32(scale).to_f32())
}

/// A block of a file.
pub fn from_q8_0(bytes: &[u8; Q8_0_BYTES]) -> QuantBlock {
    let (_, numbers) = bytes.split_at(2);
    let numbers = numbers.first_chunk().map_or([0; BLOCK], |numbers| numbers.map(|byte| byte as i8));
    (numbers, scale(bytes))
}

/// A block of a file.
pub fn from_q4_0(bytes: &[u8; Q4_0_BYTES]) -> QuantBlock {
    let mut numbers = [0; BLOCK];
    let (first, second) = numbers.split_at_mut(BLOCK / 2);
    for ((first, second), byte) in first.iter_mut().zip(second).zip(&bytes[2..]) {
        *first = (byte & 0xf) as i8 - 8;
        *second = (byte >> 4) as i8 - 8;
    }
    (numbers, scale(bytes))
}

fn scale(bytes: &[u8]) -> f32 {
    f16::from_le_bytes([bytes[0], bytes[1]]).to_f32()
}

/// The nearest integer to a number below 2^22, ties away from 0: what `f32::round` gives,
/// which would be a call for each number.
fn round_away(number: f32) -> i32 {
    const BELOW_A_HALF: f32 = 0.499_999_97;
    (number + BELOW_A_HALF.copysign(number)) as i32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rounding_is_that_of_the_standard_library() {
        for step in -1_000_000..=1_000_000 {
            let number = step as f32 * 1.27e-4;
            assert_eq!(round_away(number), number.round() as i32, "{number}");
        }
        for half in -127..127 {
            for number in [half as f32 + 0.5, (half as f32 + 0.5).next_down(), (half as f32 + 0.5).next_up()] {
                assert_eq!(round_away(number), number.round() as i32, "{number}");
            }
        }
    }

    proptest! {
        #[test]
        fn blocks_of_a_file_are_those_it_was_made_of(numbers: [i8; BLOCK], scale in 0..0x7c00u16) {
            let mut bytes = [0; Q8_0_BYTES];
            bytes[..2].copy_from_slice(&scale.to_le_bytes());
            for (byte, number) in bytes[2..].iter_mut().zip(numbers) {
                *byte = number as u8;
            }
            prop_assert_eq!(from_q8_0(&bytes), (numbers, f16::from_bits(scale).to_f32()));
            let mut bytes = [0; Q4_0_BYTES];
            bytes[..2].copy_from_slice(&scale.to_le_bytes());
            let numbers = numbers.map(|number| number >> 4);
            for (index, byte) in bytes[2..].iter_mut().enumerate() {
                *byte = (numbers[index] + 8) as u8 | ((numbers[index + 16] + 8) as u8) << 4;
            }
            prop_assert_eq!(from_q4_0(&bytes), (numbers, f16::from_bits(scale).to_f32()));
        }
    }
}
