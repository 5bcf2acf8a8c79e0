//! The kernel inside a bzImage, decompressed on the host.
//!
//! A bzImage decompresses itself, which takes an emulated processor several seconds. If the kernel inside can
//! be entered directly (the PVH boot protocol), QEMU is given that kernel instead. Nothing else about the
//! guest differs, except that the kernel is not at a random address.

use crate::error::{GuestError, Result};
use crate::initramfs::{to_read, unnamed};
use crate::kept::{KeptFiles, Known, hexadecimal};
use fsdyno_core::Bytes;
use object::Endianness;
use object::read::elf::{ElfFile64, ProgramHeader};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// The first version of the boot protocol whose header has the position of what is compressed
/// (Documentation/arch/x86/boot.rst, `payload_offset`).
const WITH_PAYLOAD: u16 = 0x0208;
/// The unit in which the header counts the size of the part that runs in real mode.
const SECTOR: usize = 512;
/// The size of that part, in sectors, if the header says zero.
const SETUP_SECTORS: u8 = 4;
/// The owner and the type of the note with the entry point (include/xen/interface/elfnote.h,
/// `XEN_ELFNOTE_PHYS32_ENTRY`).
const ENTRY_POINT: (&[u8], u32) = (b"Xen", 18);

/// The longest image and the longest kernel that are taken into memory. Debian's have 8 and 66 MB, and a few
/// bytes can decompress to any size.
const LONGEST_IMAGE: u64 = 64 << 20;
const LONGEST_KERNEL: u64 = 512 << 20;

/// A format in which kernels are compressed.
struct Compression {
    program: &'static str,
    begins: &'static [u8],
    /// `true` if the build appends the uncompressed size (scripts/Makefile.lib, `size_append`).
    size_follows: bool,
}

const COMPRESSIONS: [Compression; 3] = [
    Compression { program: "xz", begins: b"\xfd7zXZ\0", size_follows: true },
    Compression { program: "zstd", begins: b"\x28\xb5\x2f\xfd", size_follows: true },
    Compression { program: "gzip", begins: b"\x1f\x8b", size_follows: false },
];

/// The kernel of an image in a file without a name in `directory`, which any user may read who has its
/// descriptor. `None`: it cannot be entered directly, or it cannot be decompressed here, so the guest has to
/// do that itself.
///
/// Decompressing takes a second, so it is done once for all guests if the kernel can be kept, by the hash of
/// the image.
pub(crate) fn inside(image: &Path, hash: &[u8], directory: &Path, kept: Option<&KeptFiles>) -> Option<File> {
    let Some(kept) = kept else { return decompressed_inside(image, directory) };
    let name = format!("kernel-{}", hexadecimal(hash));
    if let Known::There(kernel) = kept.find(&name) {
        return Some(kernel);
    }
    let kernel = decompressed_inside(image, directory)?;
    let size = Bytes(kernel.metadata().ok()?.len());
    // Without room for it the next sweep decompresses it again.
    let _ = to_read(&kernel, directory)
        .map(|mut kernel| kept.keep(&name, size, |mut file| io::copy(&mut kernel, &mut file).map(drop)));
    Some(kernel)
}

fn decompressed_inside(image: &Path, directory: &Path) -> Option<File> {
    let bytes = at_most(LONGEST_IMAGE, File::open(image).ok()?)?;
    let payload = payload(&bytes)?;
    let compression = COMPRESSIONS.iter().find(|one| payload.starts_with(one.begins))?;
    let size = if compression.size_follows { size_of::<u32>() } else { 0 };
    let compressed = payload.get(..payload.len().checked_sub(size)?)?;
    let input = with_content(directory, compressed).ok()?;
    let kernel = decompressed(compression.program, input)?;
    can_be_entered(&kernel).then(|| with_content(directory, &kernel).ok())?
}

/// Returns the output of a decompression program for a file, if the program succeeds.
fn decompressed(program: &str, input: File) -> Option<Vec<u8>> {
    let mut command = Command::new(program);
    command.arg("-dcq").stdin(input).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let output = child.stdout.take().and_then(|output| at_most(LONGEST_KERNEL, output));
    if output.is_none() {
        // It may still be writing.
        let _ = child.kill();
    }
    let succeeded = child.wait().is_ok_and(|status| status.success());
    output.filter(|_| succeeded)
}

/// Everything that can be read, if it is no more than that.
fn at_most(bytes: u64, from: impl Read) -> Option<Vec<u8>> {
    let mut read = Vec::new();
    from.take(bytes + 1).read_to_end(&mut read).ok()?;
    (read.len() as u64 <= bytes).then_some(read)
}

fn with_content(directory: &Path, content: &[u8]) -> Result<File> {
    let mut file = unnamed(directory)?;
    file.write_all(content)
        .and_then(|()| file.rewind())
        .map_err(GuestError::file("write a file in", directory))?;
    Ok(file)
}

/// Returns the compressed part of a bzImage (Documentation/arch/x86/boot.rst).
fn payload(image: &[u8]) -> Option<&[u8]> {
    let header = image.get(..0x250)?;
    let number = |at: usize| header[at..at + 4].try_into().map(u32::from_le_bytes).ok();
    let version = u16::from_le_bytes([header[0x206], header[0x207]]);
    if &header[0x202..0x206] != b"HdrS" || version < WITH_PAYLOAD {
        return None;
    }
    let setup = if header[0x1f1] == 0 { SETUP_SECTORS } else { header[0x1f1] };
    let protected_mode = (usize::from(setup) + 1) * SECTOR;
    let begin = protected_mode.checked_add(usize::try_from(number(0x248)?).ok()?)?;
    let end = begin.checked_add(usize::try_from(number(0x24c)?).ok()?)?;
    image.get(begin..end)
}

/// Returns whether a kernel has the entry point that QEMU looks for.
fn can_be_entered(kernel: &[u8]) -> bool {
    let Ok(elf) = ElfFile64::<Endianness>::parse(kernel) else { return false };
    let endian = elf.endian();
    elf.elf_program_headers().iter().any(|segment| {
        let Ok(Some(mut notes)) = segment.notes(endian, kernel) else { return false };
        std::iter::from_fn(|| notes.next().ok().flatten())
            .any(|note| (note.name(), note.n_type(endian)) == ENTRY_POINT)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// An ELF file with one note.
    fn kernel(owner: &[u8; 4], kind: u32) -> Vec<u8> {
        let (header, segment, note) = (64_u64, 56_u64, 20_u64);
        let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
        let put = |file: &mut Vec<u8>, bytes: &[u8]| file.extend_from_slice(bytes);
        for half in [2_u16, 62] {
            put(&mut file, &half.to_le_bytes());
        }
        put(&mut file, &1_u32.to_le_bytes());
        for word in [0, header, 0] {
            put(&mut file, &word.to_le_bytes());
        }
        put(&mut file, &0_u32.to_le_bytes());
        for half in [64_u16, 56, 1, 64, 0, 0] {
            put(&mut file, &half.to_le_bytes());
        }
        for half in [4_u32, 0] {
            put(&mut file, &half.to_le_bytes());
        }
        for word in [header + segment, 0, 0, note, note, 4] {
            put(&mut file, &word.to_le_bytes());
        }
        for half in [4, 4, kind] {
            put(&mut file, &u32::to_le_bytes(half));
        }
        put(&mut file, owner);
        put(&mut file, &0x100_0000_u32.to_le_bytes());
        file
    }

    /// A bzImage of two sectors of setup with this inside.
    fn image(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0_u8; 3 * SECTOR];
        image[0x1f1] = 1;
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x206..0x208].copy_from_slice(&WITH_PAYLOAD.to_le_bytes());
        image[0x248..0x24c].copy_from_slice(&512_u32.to_le_bytes());
        image[0x24c..0x250].copy_from_slice(&u32::try_from(payload.len()).unwrap().to_le_bytes());
        image.extend_from_slice(payload);
        image.extend_from_slice(b"what follows");
        image
    }

    fn compressed(compression: &Compression, kernel: &[u8]) -> Vec<u8> {
        let directory = tempfile::tempdir().unwrap();
        let input = with_content(directory.path(), kernel).unwrap();
        let mut command = Command::new(compression.program);
        let output = command.arg("-c").stdin(input).stderr(Stdio::inherit()).output().unwrap();
        assert!(output.status.success());
        let mut payload = output.stdout;
        if compression.size_follows {
            payload.extend_from_slice(&u32::try_from(kernel.len()).unwrap().to_le_bytes());
        }
        payload
    }

    fn found(image: &[u8]) -> Option<Vec<u8>> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("vmlinuz");
        fs::write(&path, image).unwrap();
        let mut bytes = Vec::new();
        decompressed_inside(&path, directory.path()).map(|mut file| {
            file.read_to_end(&mut bytes).unwrap();
            bytes
        })
    }

    #[test]
    fn a_kernel_comes_out_as_it_went_in() {
        let kernel = kernel(b"Xen\0", 18);
        for compression in &COMPRESSIONS {
            let image = image(&compressed(compression, &kernel));
            assert_eq!(found(&image).as_ref(), Some(&kernel), "{}", compression.program);
        }
    }

    #[test]
    fn a_kernel_that_would_fill_the_memory_is_left_to_the_guest() {
        assert_eq!(at_most(3, &b"abc"[..]).as_deref(), Some(&b"abc"[..]));
        assert_eq!(at_most(3, &b"abcd"[..]), None);
        let [_, zstd, _] = &COMPRESSIONS;
        let directory = tempfile::tempdir().unwrap();
        let zeros = File::open("/dev/zero").unwrap().take(LONGEST_KERNEL + 1);
        let mut command = Command::new(zstd.program);
        let mut child = command.arg("-cq").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let feeder = std::thread::spawn(move || io::copy(&mut { zeros }, &mut input).unwrap());
        let payload = child.wait_with_output().unwrap().stdout;
        feeder.join().unwrap();
        assert!(payload.len() < 1 << 20);
        let bomb = with_content(directory.path(), &payload).unwrap();
        assert_eq!(decompressed(zstd.program, bomb), None);
    }

    #[test]
    fn what_cannot_be_entered_or_decompressed_is_left_to_the_guest() {
        let [xz, ..] = &COMPRESSIONS;
        let good = image(&compressed(xz, &kernel(b"Xen\0", 18)));
        assert!(found(&good).is_some());
        for other in [kernel(b"Xen\0", 17), kernel(b"GNU\0", 18), b"no ELF file".to_vec(), Vec::new()] {
            assert_eq!(found(&image(&compressed(xz, &other))), None);
        }
        let changed = |at: usize, bytes: &[u8]| {
            let mut image = good.clone();
            image[at..at + bytes.len()].copy_from_slice(bytes);
            found(&image)
        };
        assert_eq!(changed(0x202, b"none"), None, "no header");
        assert_eq!(changed(0x206, &[7, 2]), None, "an older header");
        assert_eq!(changed(0x248, &[0xff; 4]), None, "a payload beyond the end");
        assert_eq!(changed(0x24c, &[0xff; 4]), None, "a payload that is too long");
        assert_eq!(changed(0x24c, &[3, 0, 0, 0]), None, "a payload shorter than its size");
        assert_eq!(changed(3 * SECTOR + 20, &[0; 8]), None, "damaged");
        assert_eq!(found(&good[..0x200]), None, "cut off");
    }
}
