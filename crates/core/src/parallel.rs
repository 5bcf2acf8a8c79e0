//! Work on all processors: reading trials and merging their histograms is most of the work of a report.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::thread::{Builder, available_parallelism};

/// The results for some items, in their order. Each processor gets an equal share of them; a share for which
/// no thread can be started is done here.
pub fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let processors = available_parallelism().map_or(1, NonZero::get);
    let of_share = items.len().div_ceil(processors).max(1);
    let do_share = |share: &[T]| -> Vec<R> { share.iter().map(&work).collect() };
    let Some((first, others)) = items.split_at_checked(of_share) else { return do_share(items) };
    std::thread::scope(|scope| {
        let threads: Vec<_> = others
            .chunks(of_share)
            .map(|share| (share, Builder::new().spawn_scoped(scope, move || do_share(share))))
            .collect();
        let mut results = do_share(first);
        for (share, thread) in threads {
            results.extend(match thread {
                Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                Err(_) => do_share(share),
            });
        }
        results
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        for count in [0, 1, 2, 3, 100] {
            let items: Vec<usize> = (0..count).collect();
            assert_eq!(
                in_parallel(&items, |item| item * 2),
                items.iter().map(|item| item * 2).collect::<Vec<_>>()
            );
        }
    }
}
