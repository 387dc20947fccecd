//! Fallible allocation: running out of memory is an error, and does not abort the worker.

use crate::error::{Error, ErrorKind, Result};

/// One mebibyte, the unit of all messages about memory.
pub const MIB: u64 = 1 << 20;

/// Bytes that must be free when a forward pass or the data of a tensor begins. They are for small infallible allocations,
/// such as messages, sampling, or a few rows of a file.
const HEADROOM: usize = 4 << 20;

/// An empty vector with a capacity of exactly `count` elements.
///
/// # Errors
/// `OutOfMemory` if the allocation fails.
pub fn try_with_capacity<T>(count: usize) -> Result<Vec<T>> {
    let mut numbers = Vec::new();
    numbers.try_reserve_exact(count).map_err(|_| refused::<T>(count))?;
    Ok(numbers)
}

/// Reserves a capacity of exactly `count` elements in total.
///
/// # Errors
/// `OutOfMemory` if the allocation fails; `numbers` is unchanged.
pub fn try_reserve<T>(numbers: &mut Vec<T>, count: usize) -> Result<()> {
    let more = count.saturating_sub(numbers.len());
    numbers.try_reserve_exact(more).map_err(|_| refused::<T>(more))
}

/// Checks that the headroom is free, by allocating and freeing it.
///
/// # Errors
/// `OutOfMemory` if it is not.
pub fn check_headroom() -> Result<()> {
    // Prevents the compiler from removing the allocation.
    try_with_capacity::<u8>(HEADROOM).map(|left| drop(std::hint::black_box(left)))
}

fn refused<T>(count: usize) -> Error {
    let bytes = (count as u64).saturating_mul(size_of::<T>() as u64);
    Error::new(
        ErrorKind::OutOfMemory,
        format!(
            "cannot allocate another {} MiB; close other tabs, or choose a smaller model or precision",
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
