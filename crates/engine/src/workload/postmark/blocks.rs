//! The pieces in which a file is written and read: the system calls of C's buffered streams, or one call for
//! each block.
//!
//! postmark requests blocks of 512 bytes, but by default from the C library, which requests its own buffer
//! size from the kernel. This is what glibc does with the blocks (`_IO_new_file_xsputn`, `_IO_file_xsgetn`):
//! a write first fills the buffer, then empties it, and passes on directly what would fill it again; a read
//! takes what is in the buffer, and passes on directly what is larger than it. Without buffering the original
//! ends with a call for the rest, even if there is none.

/// Size of a stream's buffer on a file whose filesystem prefers this block size (`_IO_file_doallocate`): that
/// size, if it is below `BUFSIZ`.
pub(super) fn buffer_size(preferred: i64) -> u64 {
    u64::try_from(preferred).ok().filter(|size| (1..BUFSIZ).contains(size)).unwrap_or(BUFSIZ)
}

/// Of glibc; the largest buffer that a stream gets.
pub(super) const BUFSIZ: u64 = 8192;

/// The requested blocks: whole ones as long as possible, and then the rest.
fn blocks(size: u64, block: u64) -> impl Iterator<Item = u64> {
    (0..size / block).map(move |_| block).chain([size % block])
}

/// Writes a file of this size through a buffer: calls `put` with the length of each piece.
pub(super) fn write_buffered<E>(
    size: u64,
    block: u64,
    buffer: u64,
    mut put: impl FnMut(u64) -> Result<(), E>,
) -> Result<(), E> {
    let (mut held, mut room) = (0, 0);
    for block in blocks(size, block) {
        let taken = block.min(room - held);
        held += taken;
        let left = block - taken;
        if left > 0 {
            if held > 0 {
                put(held)?;
            }
            // Before the first write there is no space in the buffer.
            room = buffer;
            if left >= buffer {
                put(left - left % buffer)?;
            }
            held = left % buffer;
        }
    }
    if held > 0 { put(held) } else { Ok(()) }
}

/// Reads a file of this size through a buffer: calls `get` with the requested size; it returns how much
/// arrived.
pub(super) fn read_buffered<E>(
    size: u64,
    block: u64,
    buffer: u64,
    mut get: impl FnMut(u64) -> Result<u64, E>,
) -> Result<(), E> {
    let mut held = 0;
    for block in blocks(size, block) {
        let mut wanted = block;
        while wanted > held {
            wanted -= held;
            held = 0;
            let asked = if wanted < buffer { buffer } else { wanted - wanted % buffer };
            let came = get(asked)?;
            match came {
                0 => return Ok(()),
                _ if wanted < buffer => held = came,
                _ => wanted -= came.min(wanted),
            }
        }
        held -= wanted;
    }
    Ok(())
}

/// Writes a file of this size block by block.
pub(super) fn write_raw<E>(size: u64, block: u64, put: impl FnMut(u64) -> Result<(), E>) -> Result<(), E> {
    blocks(size, block).try_for_each(put)
}

/// Reads a file of this size block by block.
pub(super) fn read_raw<E>(
    size: u64,
    block: u64,
    mut get: impl FnMut(u64) -> Result<u64, E>,
) -> Result<(), E> {
    blocks(size, block).try_for_each(|block| get(block).map(drop))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::convert::Infallible;

    fn written(size: u64, block: u64, buffer: u64) -> Vec<u64> {
        let mut pieces = Vec::new();
        let put = |piece| -> Result<(), Infallible> {
            pieces.push(piece);
            Ok(())
        };
        write_buffered(size, block, buffer, put).unwrap();
        pieces
    }

    /// Returns the sizes of the requests, and the number of bytes that arrived.
    fn read(size: u64, block: u64, buffer: u64) -> (Vec<u64>, u64) {
        let (mut asked, mut position) = (Vec::new(), 0);
        let get = |piece: u64| -> Result<u64, Infallible> {
            asked.push(piece);
            let came = piece.min(size - position);
            position += came;
            Ok(came)
        };
        read_buffered(size, block, buffer, get).unwrap();
        (asked, position)
    }

    /// Taken with `strace` from programs that write and read such files with glibc 2.36.
    #[test]
    fn pieces_are_those_of_the_c_library() {
        const B: u64 = 4096;
        for (size, block, expected) in [
            (100, 512, &[100][..]),
            (4096, 512, &[B]),
            (8192, 512, &[B, B]),
            (9000, 512, &[B, B, 808]),
            (16_384, 4096, &[B, B, B, B]),
            (20_000, 5000, &[B, B, B, B, 3616]),
            (30_000, 10_000, &[2 * B, B, B, B, 2 * B, 1328]),
            (50_000, 20_000, &[4 * B, B, 4 * B, B, 2 * B, 848]),
            (12_288, 8192, &[2 * B, B]),
        ] {
            assert_eq!(written(size, block, B), expected, "{size} in blocks of {block}");
            // The last read requests a whole buffer.
            let asked: Vec<u64> = expected.iter().map(|piece| piece.next_multiple_of(B)).collect();
            assert_eq!(read(size, block, B), (asked, size), "{size} in blocks of {block}");
        }
    }

    #[test]
    fn without_a_buffer_every_block_is_a_call_and_the_rest_is_one_too() {
        let pieces = |size, block| {
            let mut pieces = Vec::new();
            let put = |piece| -> Result<(), Infallible> {
                pieces.push(piece);
                Ok(())
            };
            write_raw(size, block, put).unwrap();
            pieces
        };
        assert_eq!(pieces(1300, 512), [512, 512, 276]);
        assert_eq!(pieces(1024, 512), [512, 512, 0]);
    }

    #[test]
    fn the_buffer_is_as_the_filesystem_prefers_up_to_a_limit() {
        assert_eq!([1024, 4096, 8192, 1 << 20, 0, -1].map(buffer_size), [1024, 4096, 8192, 8192, 8192, 8192]);
    }

    proptest! {
        #[test]
        fn all_is_written_and_read(size in 1_u64..100_000, block in 1_u64..20_000, exponent in 9_u32..14) {
            let buffer = 1 << exponent;
            let pieces = written(size, block, buffer);
            prop_assert_eq!(pieces.iter().sum::<u64>(), size);
            prop_assert!(pieces.iter().all(|piece| *piece > 0));
            let (asked, came) = read(size, block, buffer);
            prop_assert_eq!(came, size);
            prop_assert!(asked.iter().all(|piece| piece % buffer == 0));
        }
    }
}
