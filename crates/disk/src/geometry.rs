//! Where data is on the platters, how long the head takes to get there, and how fast it passes below it.
//!
//! Times are nanoseconds since the disk began to turn, as floating-point numbers. The angle of the platters
//! follows from the time alone, so a request that misses its sector by a microsecond waits for a revolution.

/// The number of zones: within each, all tracks have the same number of bytes.
const ZONES: usize = 24;
/// A wait of nearly a whole revolution is a sector that was reached in time, but for rounding.
const ROUNDING_NS: f64 = 3000.0;

/// The dimensions of a disk that decide where a byte is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Dimensions {
    /// Time of a revolution.
    pub revolution_ns: f64,
    /// Time to switch to the next head or track, by which tracks are skewed.
    pub switch_ns: f64,
    /// Surfaces.
    pub heads: u64,
    /// Bytes per second on the outermost track, while the head stays on it and switches to the next one.
    pub outer_rate: f64,
    /// The same on the innermost track.
    pub inner_rate: f64,
    /// The part of the radius that is used, from 0 (outermost) to 1.
    pub span: [f64; 2],
    /// Seek times for one track, for the mean of all distances, and for the full radius.
    pub seek_ns: [f64; 3],
}

/// The tracks of a disk of some size.
#[derive(Debug, Clone)]
pub(crate) struct Geometry {
    dimensions: Dimensions,
    zones: Vec<Zone>,
    cylinders: f64,
    size: u64,
    curve: SeekCurve,
}

#[derive(Debug, Clone, Copy)]
struct Zone {
    first_byte: u64,
    first_track: u64,
    tracks: u64,
    bytes_of_track: f64,
}

/// A place on a track.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spot {
    pub track: u64,
    /// Bytes from the beginning of the track.
    pub byte: f64,
    pub bytes_of_track: f64,
}

/// Seek time over distance: `a + b sqrt(d) + c d`, where `d` is the share of the full radius. Short seeks
/// accelerate all the way, and long ones coast (Ruemmler and Wilkes, An Introduction to Disk Drive Modeling,
/// 1994).
#[derive(Debug, Clone, Copy)]
struct SeekCurve {
    constant: f64,
    root: f64,
    linear: f64,
}

impl SeekCurve {
    /// The curve through three times: for one track, for the mean over two random places, and for the full
    /// radius. Over two random places, the mean of `d` is 1/3, and that of its root 8/15.
    fn through([track, mean, full]: [f64; 3]) -> SeekCurve {
        let (mean, full) = (mean - track, full - track);
        let root = (mean - full / 3.0) / (8.0 / 15.0 - 1.0 / 3.0);
        SeekCurve { constant: track, root, linear: full - root }
    }

    fn at(&self, distance: f64) -> f64 {
        self.constant + self.root * distance.sqrt() + self.linear * distance
    }
}

impl Geometry {
    /// Lays out this many bytes on the part of the disk that its dimensions name: the tracks are as many as
    /// that takes, and the distances those of the whole part.
    pub fn new(dimensions: Dimensions, size: u64) -> Geometry {
        let [outer, inner] = dimensions.span;
        let bytes_of_track: Vec<f64> = (0..ZONES)
            .map(|zone| {
                let radius = outer + (inner - outer) * (zone as f64 + 0.5) / ZONES as f64;
                let rate = dimensions.outer_rate + (dimensions.inner_rate - dimensions.outer_rate) * radius;
                rate * (dimensions.revolution_ns + dimensions.switch_ns) / 1e9
            })
            .collect();
        let tracks = (size as f64 / bytes_of_track.iter().sum::<f64>()).ceil().max(1.0) as u64;
        let (mut first_byte, mut first_track) = (0, 0);
        let zones = bytes_of_track.into_iter().map(|bytes_of_track| {
            let zone = Zone { first_byte, first_track, tracks, bytes_of_track };
            first_byte += (tracks as f64 * bytes_of_track) as u64;
            first_track += tracks;
            zone
        });
        let zones: Vec<Zone> = zones.collect();
        let cylinders = (first_track as f64 / dimensions.heads as f64).ceil();
        let curve = SeekCurve::through(dimensions.seek_ns);
        Geometry { dimensions, zones, cylinders, size, curve }
    }

    /// The bytes of the disk.
    pub fn size(&self) -> u64 {
        self.size
    }

    pub fn locate(&self, offset: u64) -> Spot {
        let zone = self.zones.partition_point(|zone| zone.first_byte <= offset).saturating_sub(1);
        let Zone { first_byte, first_track, tracks, bytes_of_track } = self.zones[zone];
        let within = (offset - first_byte) as f64;
        let track = ((within / bytes_of_track) as u64).min(tracks - 1);
        Spot { track: first_track + track, byte: within - track as f64 * bytes_of_track, bytes_of_track }
    }

    /// The time to move the head from one track to another.
    pub fn seek_ns(&self, from: u64, to: u64) -> f64 {
        if from == to {
            return 0.0;
        }
        let [from, to] = [from, to].map(|track| track / self.dimensions.heads);
        if from == to {
            return self.dimensions.switch_ns;
        }
        let [outer, inner] = self.dimensions.span;
        self.curve.at(from.abs_diff(to) as f64 / self.cylinders * (inner - outer))
    }

    /// The time until a spot is below the head, if the head is on its track at this moment.
    pub fn rotation_ns(&self, at_ns: f64, spot: Spot) -> f64 {
        let Dimensions { revolution_ns, switch_ns, .. } = self.dimensions;
        let turns = spot.byte / spot.bytes_of_track + spot.track as f64 * (switch_ns / revolution_ns)
            - at_ns / revolution_ns;
        let wait = turns.rem_euclid(1.0) * revolution_ns;
        if wait > revolution_ns - ROUNDING_NS { 0.0 } else { wait }
    }

    /// The time in which these bytes pass below the head, and the track on which it is then.
    pub fn transfer_ns(&self, offset: u64, bytes: u64) -> (f64, u64) {
        let mut sweep = self.sweep(offset);
        let mut left = bytes as f64;
        loop {
            let on_track = sweep.left_on_track();
            if left <= on_track {
                return (sweep.took_ns + left * sweep.ns_per_byte(), sweep.spot.track);
            }
            left -= on_track;
            sweep.next_track();
        }
    }

    /// The end of what has passed below the head in this time, at most `limit`, and the track of the head.
    pub fn reach(&self, offset: u64, within_ns: f64, limit: u64) -> (u64, u64) {
        let mut sweep = self.sweep(offset);
        while sweep.offset < limit {
            let left_ns = within_ns - sweep.took_ns;
            if left_ns <= 0.0 {
                break;
            }
            let track_ns = sweep.left_on_track() * sweep.ns_per_byte();
            if left_ns < track_ns {
                let passed = (left_ns / sweep.ns_per_byte()) as u64;
                return ((sweep.offset + passed).min(limit), sweep.spot.track);
            }
            sweep.next_track();
        }
        (sweep.offset.min(limit), sweep.spot.track)
    }

    fn sweep(&self, offset: u64) -> Sweep<'_> {
        Sweep { geometry: self, offset, spot: self.locate(offset), took_ns: 0.0 }
    }
}

/// A head that follows the data.
struct Sweep<'g> {
    geometry: &'g Geometry,
    offset: u64,
    spot: Spot,
    took_ns: f64,
}

impl Sweep<'_> {
    fn ns_per_byte(&self) -> f64 {
        self.geometry.dimensions.revolution_ns / self.spot.bytes_of_track
    }

    fn left_on_track(&self) -> f64 {
        self.spot.bytes_of_track - self.spot.byte
    }

    /// Reads to the end of the track, and switches to the next one.
    fn next_track(&mut self) {
        self.took_ns += self.left_on_track() * self.ns_per_byte() + self.geometry.dimensions.switch_ns;
        self.offset += self.left_on_track().ceil() as u64;
        let next = self.geometry.locate(self.offset);
        self.spot = Spot { track: next.track.max(self.spot.track + 1), byte: 0.0, ..next };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn dimensions() -> Dimensions {
        Dimensions {
            revolution_ns: 60e9 / 7200.0,
            switch_ns: 0.9e6,
            heads: 4,
            outer_rate: 100e6,
            inner_rate: 55e6,
            span: [0.0, 1.0],
            seek_ns: [0.8e6, 8.5e6, 17e6],
        }
    }

    #[test]
    fn the_curve_passes_through_its_three_points() {
        let geometry = Geometry::new(dimensions(), 8 * GIB);
        let tracks = geometry.zones.last().map_or(0, |zone| zone.first_track + zone.tracks);
        let full = geometry.seek_ns(0, tracks - 1);
        assert!((full / 17e6 - 1.0).abs() < 0.001, "{full}");
        let near = geometry.seek_ns(0, 4);
        assert!((0.8e6..1.5e6).contains(&near), "{near}");
        // The mean over all pairs of cylinders.
        let mut sum = 0.0;
        let steps = 300;
        for from in 0..steps {
            for to in 0..steps {
                sum += geometry.seek_ns(from * tracks / steps, to * tracks / steps);
            }
        }
        let mean = sum / (steps * steps) as f64;
        assert!((mean / 8.5e6 - 1.0).abs() < 0.01, "{mean}");
    }

    #[test]
    fn what_follows_on_the_next_track_is_there_when_the_head_is() {
        let geometry = Geometry::new(dimensions(), 8 * GIB);
        let (took, _) = geometry.transfer_ns(0, 64 << 20);
        let rate = (64 << 20) as f64 / took * 1e9;
        assert!((rate / 99.1e6 - 1.0).abs() < 0.005, "the rate of the outermost zone: {rate}");
        for offset in [0, 5 * GIB, 7 * GIB + 4096] {
            for bytes in [4096, 1 << 20, 10 << 20] {
                let (took, track) = geometry.transfer_ns(offset, bytes);
                let (end, reached) = geometry.reach(offset, took + 1.0, u64::MAX);
                assert!(
                    end.abs_diff(offset + bytes) < 4096 && reached.abs_diff(track) <= 1,
                    "{offset} {bytes}"
                );
            }
        }
    }

    #[test]
    fn waiting_for_a_sector_takes_less_than_a_revolution() {
        let geometry = Geometry::new(dimensions(), 8 * GIB);
        let mut sum = 0.0;
        let count = 10_000;
        for index in 0..count {
            let wait = geometry.rotation_ns(f64::from(index) * 5_150_283.0, geometry.locate(GIB));
            assert!((0.0..geometry.dimensions.revolution_ns).contains(&wait));
            sum += wait;
        }
        let mean = sum / f64::from(count) / (geometry.dimensions.revolution_ns / 2.0);
        assert!((mean - 1.0).abs() < 0.02, "half a revolution in the mean: {mean}");
    }
}
