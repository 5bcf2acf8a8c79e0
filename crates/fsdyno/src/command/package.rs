//! `fsdyno package DIR` (hidden): the files of an installation that are made from the program itself, namely
//! man pages, completions and the boot unit. `make install` and the Debian package install them. And
//! `fsdyno completions SHELL`, which prints one of them.

use super::Result;
use crate::cli::{Cli, Completions, Package};
use crate::exit::{CODES, Status};
use crate::file;
use crate::out;
use crate::state::{ROOTS_CACHE, ROOTS_STATE};
use crate::unit::{self, Unit};
use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use std::io::Write;
use std::path::Path;

/// The shells whose completions are installed, with the place and name that each one looks for.
const SHELLS: &[(Shell, &str)] = &[
    (Shell::Bash, "bash-completion/completions/fsdyno"),
    (Shell::Fish, "fish/vendor_completions.d/fsdyno.fish"),
    (Shell::Zsh, "zsh/vendor-completions/_fsdyno"),
];

pub fn run(options: &Package) -> Result {
    let mut files = pages()?;
    files.extend(SHELLS.iter().map(|(shell, name)| (format!("share/{name}"), script(*shell))));
    // Whether the state is on the root filesystem is only known where it is installed: where it is not, the
    // unit does nothing, and `fsdyno restore --install-unit` writes one that fits into /etc.
    let unit = Unit { binary: options.binary.to_path_buf(), state: ROOTS_STATE.into(), early: true };
    files.push(("systemd/fsdyno-restore.service".to_string(), unit.text().into_bytes()));
    for (name, bytes) in files {
        let path = options.directory.join(name);
        file::make_directory(path.parent().unwrap_or(Path::new(".")))?;
        file::write_whole(&path, |out| Ok(out.write_all(&bytes)?))?;
    }
    Ok(Status::Well)
}

pub fn completions(options: &Completions) -> Result {
    out::plain().write_all(&script(options.shell))?;
    Ok(Status::Well)
}

/// A script that completes the command line in a shell.
fn script(shell: Shell) -> Vec<u8> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "fsdyno", &mut text);
    text
}

/// fsdyno(1), and a page for each command.
fn pages() -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let mut pages = Vec::new();
    let mut root = Cli::command();
    // Global options reach the commands, and their names become those of the pages.
    root.build();
    let shown = |command: &&clap::Command| !command.is_hide_set() && command.get_name() != "help";
    for command in root.get_subcommands().filter(shown) {
        let name = format!("fsdyno-{}", command.get_name());
        let page = page(command.clone())?;
        pages.push((format!("share/man/man1/{name}.1"), page));
    }
    let mut page = page(Cli::command())?;
    page.extend(further_sections().to_roff().into_bytes());
    pages.push(("share/man/man1/fsdyno.1".to_string(), page));
    Ok(pages)
}

/// The page of a command. What is printed after its help are examples.
fn page(command: clap::Command) -> anyhow::Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(command).render(&mut page)?;
    Ok(String::from_utf8(page)?.replace(".SH EXTRA", ".SH EXAMPLES").into_bytes())
}

/// Returns the sections that do not follow from the definition of the command line.
fn further_sections() -> Roff {
    let mut roff = Roff::new();
    let mut entries = |section: &str, entries: &[(String, String)]| {
        roff.control("SH", [section]);
        for (term, text) in entries {
            roff.control("TP", []).text([bold(term.as_str())]).text([roman(text.as_str())]);
        }
    };
    let codes = CODES.iter().map(|(status, text)| (status.code().to_string(), text.replace('`', "")));
    entries("EXIT STATUS", &codes.collect::<Vec<_>>());
    let files = [
        (ROOTS_STATE, "results and undo journals of root"),
        ("$XDG_STATE_HOME/fsdyno", "those of other users; by default ~/.local/state/fsdyno"),
        (ROOTS_CACHE, "kernels and programs for guests of root"),
        (unit::PATH, "restores at boot, where fsdyno restore --install-unit wrote it"),
    ];
    entries("FILES", &files.map(|(path, text)| (path.to_string(), text.to_string())));
    roff
}
