//! Memory as a thing that can be refused, never one that aborts the worker.

use crate::error::{Error, ErrorKind, Result};

/// One mebibyte, the unit of all sentences about memory.
pub const MIB: u64 = 1 << 20;

/// Bytes that are left when a pass or the data of a tensor begins: for what is small and cannot be refused, such as
/// sentences, the choice of a token and the messages that tell of it, or a few rows of a file.
const HEADROOM: usize = 4 << 20;

/// Nothing yet, in one allocation of exactly the size of `count` numbers. Filling it as they come touches its memory
/// once.
///
/// # Errors
/// `OutOfMemory` if there is no room for them.
pub fn try_with_capacity<T>(count: usize) -> Result<Vec<T>> {
    let mut numbers = Vec::new();
    numbers.try_reserve_exact(count).map_err(|_| refused::<T>(count))?;
    Ok(numbers)
}

/// Takes room for `count` numbers in all, in one allocation of exactly that size.
///
/// # Errors
/// `OutOfMemory` if there is none; `numbers` is unchanged.
pub fn try_reserve<T>(numbers: &mut Vec<T>, count: usize) -> Result<()> {
    let more = count.saturating_sub(numbers.len());
    numbers.try_reserve_exact(more).map_err(|_| refused::<T>(more))
}

/// Takes room for all that is small and gives it back.
///
/// # Errors
/// `OutOfMemory` if there is none.
pub fn check_headroom() -> Result<()> {
    // Seen by somebody, or the compiler leaves out both.
    try_with_capacity::<u8>(HEADROOM).map(|left| drop(std::hint::black_box(left)))
}

fn refused<T>(count: usize) -> Error {
    let bytes = (count as u64).saturating_mul(size_of::<T>() as u64);
    Error::new(
        ErrorKind::OutOfMemory,
        format!(
            "there is no room for {} MiB more; close other tabs, or choose a smaller model or precision",
            bytes.div_ceil(MIB)
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_much_is_an_error_not_an_abort() {
        assert_eq!(try_with_capacity::<f32>(3).unwrap().capacity(), 3);
        let error = try_with_capacity::<u64>(usize::MAX / 16).unwrap_err();
        assert_eq!(error.kind, ErrorKind::OutOfMemory);
        assert!(error.message.contains("MiB"), "{error}");
    }
}
