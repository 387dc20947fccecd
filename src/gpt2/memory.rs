//! Memory as a thing that can be refused, never one that aborts the worker.

use crate::error::{Error, ErrorKind, Result};

/// One mebibyte, the unit of all sentences about memory.
pub const MIB: u64 = 1 << 20;

/// `count` copies of `zero`, in one allocation of exactly that size.
///
/// # Errors
/// `OutOfMemory` if there is no room for them.
pub fn filled<T: Clone>(count: usize, zero: T) -> Result<Vec<T>> {
    let mut numbers = Vec::new();
    numbers.try_reserve_exact(count).map_err(|_| {
        let bytes = (count as u64).saturating_mul(size_of::<T>() as u64);
        Error::new(
            ErrorKind::OutOfMemory,
            format!(
                "there is no room for {} MiB more; close other tabs, or choose a smaller model or precision",
                bytes.div_ceil(MIB)
            ),
        )
    })?;
    numbers.resize(count, zero);
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_much_is_an_error_not_an_abort() {
        assert_eq!(filled(3, 1.5).unwrap(), [1.5; 3]);
        let error = filled(usize::MAX / 16, 0u64).unwrap_err();
        assert_eq!(error.kind, ErrorKind::OutOfMemory);
        assert!(error.message.contains("MiB"), "{error}");
    }
}
