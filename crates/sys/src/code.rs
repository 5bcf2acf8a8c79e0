//! The code of this process.

use std::hint::black_box;
use std::ptr;

/// Touches every page of the code of this process, libraries included. From then on each is mapped, so that
/// dropping caches leaves it, and none is read from a disk in the middle of what is counted or timed.
pub fn page_in() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    for (begin, end) in maps.lines().filter_map(code) {
        for page in (begin..end).step_by(rustix::param::page_size()) {
            // SAFETY: the kernel has just said that this is mapped and readable, and no code of this process
            // is ever unmapped.
            black_box(unsafe { ptr::read_volatile(ptr::with_exposed_provenance::<u8>(page)) });
        }
    }
}

/// The addresses of a line of `/proc/self/maps` (proc_pid_maps(5)), if it maps code of a file.
fn code(line: &str) -> Option<(usize, usize)> {
    let mut fields = line.split_ascii_whitespace();
    let (begin, end) = fields.next()?.split_once('-')?;
    let is_code = fields.next()?.starts_with("r-x") && fields.nth(3)?.starts_with('/');
    let address = |text| usize::from_str_radix(text, 16).ok();
    is_code.then_some((address(begin)?, address(end)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_files_is_found_and_touched() {
        let program = "55d0c8a00000-55d0c8c00000 r-xp 00010000 fd:00 1234   /usr/bin/a program";
        assert_eq!(code(program), Some((0x55d0_c8a0_0000, 0x55d0_c8c0_0000)));
        for other in [
            "55d0c8a00000-55d0c8c00000 r--p 00010000 fd:00 1234   /usr/bin/program",
            "7ffc1a5fe000-7ffc1a600000 r-xp 00000000 00:00 0      [vdso]",
            "7f0000000000-7f0000001000 r-xp 00000000 00:00 0",
            "",
        ] {
            assert_eq!(code(other), None, "{other}");
        }
        page_in();
    }
}
