//! Attention over the chunks of one step from times of uniform batches of prompts.

use super::Chunk;
use super::kernels::Timed;

/// Causal attention over several chunks from times of uniform batches of prompts without past; `pairs` counts the query/key pairs of a
/// chunk, `length` finds the place of a prompt length, and `uniform` tells a batch of so many prompts of the length at a place.
///
/// A chunk with past takes as long as a whole prompt of the same work, so that it never gets faster as it grows. Each chunk is
/// charged its share of the time the whole step would take were all its work done in chunks like this one. At least the
/// longest chunk's own time passes. For equal chunks without past this is the measured time.
///
/// Returns `None` where one of them does.
#[inline]
pub(super) fn chunked<P>(
    chunks: &[Chunk],
    pairs: impl Fn(Chunk) -> f64,
    length: impl Fn(f64) -> Option<P>,
    uniform: impl Fn(f64, &P) -> Option<Timed>,
) -> Option<Timed> {
    let total: f64 = chunks.iter().map(|&c| pairs(c)).sum();
    let per_pair = 1.0 / total;
    let (mut shared, mut longest, mut measured) = (0.0f64, 0.0f64, true);
    for &chunk in chunks.iter().filter(|c| c.new > 0) {
        let (work, mut tokens) = (pairs(chunk), f64::from(chunk.new));
        if chunk.past > 0 {
            let without_past = pairs(Chunk { past: 0, ..chunk });
            tokens *= (work / without_past).sqrt();
        }
        let place = length(tokens)?;
        let alone = uniform(1.0, &place)?;
        let own = alone.seconds;
        longest = longest.max(own);
        measured &= alone.measured && chunk.past == 0;
        // The reciprocal does not wait for the total.
        let batch = total * (1.0 / work);
        if batch > 1.0 {
            shared += uniform(batch, &place)?.seconds * (work * per_pair);
        } else {
            shared += own;
        }
    }
    Some(Timed {
        seconds: shared.max(longest),
        measured,
    })
}
