//! No two files depend on each other, directly or through others: to understand one, a reader needs only
//! those below it.
//!
//! Modules side by side are compared, at every depth of every crate: what a file names, wherever it is
//! re-exported, is counted for the modules of that depth in which the two are. A module and those inside it
//! are one thing here, because what the outer one offers is made of them.

use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use syn::visit::Visit;

/// A path from the root of a crate.
type Names = Vec<String>;

/// A source file, without its unit tests.
#[derive(Default)]
struct Module {
    /// The items that it imports: the name of each here, and the path as it is written.
    imports: BTreeMap<String, Names>,
    /// Every other path that it names, as written.
    named: Vec<Names>,
    /// Modules that exist only in tests.
    of_tests: Vec<String>,
}

impl Module {
    fn of(text: &str) -> Self {
        let mut module = Module::default();
        module.visit_file(&syn::parse_file(text).expect("a source file"));
        module
    }

    fn import(&mut self, tree: &syn::UseTree, mut before: Names) {
        match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.import(&path.tree, before);
            }
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.import(tree, before.clone()));
            }
            syn::UseTree::Glob(_) => self.named.push(before),
            syn::UseTree::Name(name) => self.bind(name.ident.to_string(), name.ident.to_string(), before),
            syn::UseTree::Rename(rename) => {
                self.bind(rename.rename.to_string(), rename.ident.to_string(), before);
            }
        }
    }

    fn bind(&mut self, alias: String, name: String, mut path: Names) {
        let alias = if alias == "self" { path.last().cloned().unwrap_or_default() } else { alias };
        if name != "self" {
            path.push(name);
        }
        self.named.push(path.clone());
        self.imports.insert(alias, path);
    }

    /// The paths in the input of a macro, which is not parsed any further.
    fn tokens(&mut self, tokens: TokenStream) {
        let (mut path, mut colons) = (Names::new(), 0);
        for token in tokens {
            match token {
                TokenTree::Ident(ident) if path.is_empty() || colons == 2 => {
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' && !path.is_empty() => colons += 1,
                other => {
                    self.named.push(std::mem::take(&mut path));
                    colons = 0;
                    match other {
                        TokenTree::Ident(ident) => path.push(ident.to_string()),
                        TokenTree::Group(group) => self.tokens(group.stream()),
                        _ => {}
                    }
                }
            }
        }
        self.named.push(path);
    }
}

fn is_of_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().filter(|one| one.path().is_ident("cfg")).any(|one| match &one.meta {
        syn::Meta::List(list) => {
            list.tokens.to_string().split(|c: char| !c.is_alphanumeric()).any(|word| word == "test")
        }
        _ => false,
    })
}

impl<'a> Visit<'a> for Module {
    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        if is_of_tests(&item.attrs) {
            self.of_tests.push(item.ident.to_string());
        } else {
            syn::visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        if !is_of_tests(&item.attrs) {
            self.import(&item.tree, Names::new());
        }
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        self.named.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'a syn::Macro) {
        self.tokens(call.tokens.clone());
    }
}

/// The modules of a crate by their paths; the root is the empty one.
struct Crate(BTreeMap<Names, Module>);

impl Crate {
    fn read(src: &Path) -> Self {
        let mut modules = BTreeMap::new();
        let mut open: Vec<PathBuf> = vec![src.to_path_buf()];
        while let Some(directory) = open.pop() {
            for entry in fs::read_dir(directory).expect("a directory").flatten() {
                let path = entry.path();
                if path.is_dir() {
                    open.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let below = path.strip_prefix(src).expect("a file below").with_extension("");
                    let mut names: Names =
                        below.iter().map(|part| part.to_string_lossy().into_owned()).collect();
                    if names.last().is_some_and(|last| ["mod", "lib", "main"].contains(&&**last)) {
                        names.pop();
                    }
                    modules.insert(names, Module::of(&fs::read_to_string(&path).expect("a file")));
                }
            }
        }
        Crate::without_tests(modules)
    }

    fn without_tests(mut modules: BTreeMap<Names, Module>) -> Self {
        let of_tests: Vec<Names> = modules
            .iter()
            .flat_map(|(names, module)| {
                module.of_tests.iter().map(move |name| [names.clone(), vec![name.clone()]].concat())
            })
            .collect();
        modules.retain(|names, _| !of_tests.iter().any(|root| names.starts_with(root)));
        Crate(modules)
    }

    /// A path from the root, if one that is written in a module leads into this crate.
    fn absolute(&self, module: &[String], written: &[String]) -> Option<Names> {
        let (first, rest) = written.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([module, rest].concat()),
            "super" => {
                let (_, outer) = module.split_last()?;
                let is_outer = rest.first().is_some_and(|next| next == "super");
                if is_outer { self.absolute(outer, rest) } else { Some([outer, rest].concat()) }
            }
            _ => {
                let inside = [module, written].concat();
                let imported = self.0.get(module)?.imports.get(first).filter(|path| path[0] != *first);
                match imported {
                    _ if self.0.contains_key(&inside[..=module.len()]) => Some(inside),
                    Some(path) => self.absolute(module, &[path, rest].concat()),
                    None => None,
                }
            }
        }
    }

    /// The module in which something is defined, through everything that re-exports it.
    fn home(&self, path: &[String]) -> Names {
        let mut home = Names::new();
        for (index, name) in path.iter().enumerate() {
            let inside = [&home[..], std::slice::from_ref(name)].concat();
            if self.0.contains_key(&inside) {
                home = inside;
                continue;
            }
            let imported = self.0.get(&home).and_then(|module| module.imports.get(name));
            let onwards = imported.and_then(|written| self.absolute(&home, written));
            return match onwards.map(|onwards| [&onwards[..], &path[index + 1..]].concat()) {
                Some(onwards) if onwards != path => self.home(&onwards),
                _ => home,
            };
        }
        home
    }

    /// For each module, those side by side with it that it needs.
    fn needs(&self) -> BTreeMap<Names, BTreeSet<Names>> {
        let mut needs: BTreeMap<Names, BTreeSet<Names>> = BTreeMap::new();
        for (names, module) in &self.0 {
            for written in &module.named {
                let Some(path) = self.absolute(names, written) else { continue };
                let home = self.home(&path);
                let common = names.iter().zip(&home).take_while(|(a, b)| a == b).count();
                if common < names.len() && common < home.len() {
                    let needed = home[..=common].to_vec();
                    needs.entry(needed.clone()).or_default();
                    needs.entry(names[..=common].to_vec()).or_default().insert(needed);
                }
            }
        }
        needs
    }
}

/// Returns the modules that are left when those are taken away that need none of the rest, or that none of
/// the rest needs.
fn circle(mut needs: BTreeMap<Names, BTreeSet<Names>>) -> BTreeMap<Names, BTreeSet<Names>> {
    loop {
        let needed: BTreeSet<Names> = needs.values().flatten().cloned().collect();
        let free = |(names, below): (&Names, &BTreeSet<Names>)| {
            (below.is_empty() || !needed.contains(names)).then(|| names.clone())
        };
        let free: BTreeSet<Names> = needs.iter().filter_map(free).collect();
        if free.is_empty() {
            return needs;
        }
        needs.retain(|names, _| !free.contains(names));
        needs.values_mut().for_each(|below| below.retain(|names| !free.contains(names)));
    }
}

#[test]
fn no_files_depend_on_each_other() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    for entry in fs::read_dir(crates).expect("crates").flatten() {
        for (names, needed) in circle(Crate::read(&entry.path().join("src")).needs()) {
            let needed: Vec<String> = needed.iter().map(|names| names.join("::")).collect();
            let name = entry.file_name().to_string_lossy().into_owned();
            found.push(format!("{name}: {} needs {}", names.join("::"), needed.join(", ")));
        }
    }
    assert!(found.is_empty(), "files that depend on each other:\n{}", found.join("\n"));
}

#[test]
fn a_circle_is_found() {
    let circle_of = |files: &[(&str, &str)]| {
        let names =
            |path: &str| path.split("::").filter(|name| !name.is_empty()).map(str::to_string).collect();
        let modules = files.iter().map(|(path, text)| (names(path), Module::of(text))).collect();
        let left = circle(Crate::without_tests(modules).needs());
        left.into_keys().map(|names| names.join("::")).collect::<Vec<_>>()
    };
    let root = ("", "mod a; mod b; mod c; #[cfg(test)] mod only;");
    assert_eq!(circle_of(&[root, ("a", "use crate::b::B;"), ("b", "fn f() { crate::a::g() }")]), ["a", "b"]);
    // Through another one, through what a module re-exports, and inside of a macro.
    let through = ("c", "pub use crate::a::A;");
    assert_eq!(
        circle_of(&[root, ("a", "use super::{b::B};"), ("b", "use super::c::A;"), through]),
        ["a", "b"]
    );
    assert_eq!(
        circle_of(&[root, ("a", "make! { x: crate::b::B }"), ("b", "use crate::a as z;")]),
        ["a", "b"]
    );
    let inside =
        [("m", "mod x; mod y; pub use y::Y;"), ("m::x", "use super::Y;"), ("m::y", "use super::x::X;")];
    assert_eq!(circle_of(&inside), ["m::x", "m::y"]);
    // What a module offers is made of those inside it, and tests may use everything.
    assert!(circle_of(&[("m", "mod x; pub use x::X; struct M;"), ("m::x", "use super::M;")]).is_empty());
    let tests = [root, ("a", "#[cfg(test)] mod tests { use crate::b::B; }"), ("b", "use crate::a::A;")];
    assert!(circle_of(&tests).is_empty());
    assert!(circle_of(&[root, ("a", "use crate::only::O;"), ("only", "use crate::a::A;")]).is_empty());
}
