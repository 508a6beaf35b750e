//! What each link carried: bytes, utilisation, waiting before it, and time on the way that no prompt computation hid.
//!
//! On links of the instances' own there is one row for each instance that posts transfers. On a shared network there is one for the
//! posting of each instance that posts, and one for each port that transfers pass; staging through host memory as a whole adds
//! the copies of each instance. A transfer counts on every link it passes. Utilisation is of the measured span: for a link of
//! an instance's own, for posting and for copies the share of time in which they are taken; for a port the bytes against
//! those it could carry, a transfer's bytes spread evenly over its time on the wire.

use serde::Serialize;

use super::collector::seconds;
use super::histogram::Histogram;
use crate::cluster::{PoolSpec, Sharing, Staging, SystemSpec, TransferFact, TransferMode};
use crate::net::{Place, Topology};
use crate::units::SimTime;

/// What a link is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkKind {
    /// The link of an instance's own: one transfer at a time, posting included.
    Link,
    /// The posting of descriptors before a shared network, one transfer at a time.
    Posting,
    /// One direction of a network card, of all cards of a node, of the links inside it, or of those to the host.
    Port,
    /// Copies to or from host memory, one at a time.
    Copies,
}

impl LinkKind {
    /// The word written to result files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Link => "link",
            Self::Posting => "posting",
            Self::Port => "port",
            Self::Copies => "copies",
        }
    }
}

/// One link over the measured span. Transfers that were queued before it are left out of all but `utilisation`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinkMetrics {
    /// Whose it is: `prefill 0 out`.
    pub link: String,
    /// What it is.
    pub kind: LinkKind,
    /// Transfers over it.
    pub transfers: u64,
    /// Bytes over it.
    pub bytes: u64,
    /// Of those, bytes that travelled while their prompts were being computed.
    pub early_bytes: u64,
    /// What it can carry; none where that is unlimited and for posting.
    pub bytes_per_s: Option<f64>,
    /// Share of the measured span in which it is taken, or share of the bytes it could carry.
    pub utilisation: f64,
    /// Waiting for a turn, in all queues on the way: mean.
    pub queue_mean_ms: f64,
    /// 90th percentile.
    pub queue_p90_ms: f64,
    /// Longest.
    pub queue_max_ms: f64,
    /// Posting, copying and flowing after the prompt was done: mean.
    pub exposed_mean_ms: f64,
    /// 90th percentile.
    pub exposed_p90_ms: f64,
    /// Longest.
    pub exposed_max_ms: f64,
}

/// The books of one link.
#[derive(Debug)]
struct Book {
    link: String,
    kind: LinkKind,
    bytes_per_s: f64,
    transfers: u64,
    bytes: u64,
    early: u64,
    /// Picoseconds taken, or bytes carried in the measured span.
    busy: f64,
    queue: Histogram,
    exposed: Histogram,
}

/// The books of all links of a system.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// Those of the posting instances first, by their numbers.
    books: Vec<Book>,
    instances: usize,
    /// By port: its book. None for links of the instances' own.
    network: Option<(Topology, Vec<usize>)>,
    staging: Option<Staging>,
    /// The first book of copies out, by instance; those in follow.
    copies: usize,
}

impl Links {
    /// Empty books for the links of a system.
    pub(super) fn new(system: &SystemSpec) -> Self {
        let transfer = &system.transfer;
        let mut links = Self {
            staging: transfer.staging,
            ..Self::default()
        };
        if system.pools.len() < 2 {
            return links;
        }
        let names = names(&system.pools);
        links.instances = names.len();
        let way = match transfer.mode {
            TransferMode::Push => "out",
            TransferMode::Pull => "in",
        };
        for name in &names {
            let book = match transfer.sharing {
                None => Book::new(
                    format!("{name} {way}"),
                    LinkKind::Link,
                    transfer.bytes_per_sec,
                ),
                Some(_) => Book::new(format!("{name} posting"), LinkKind::Posting, f64::INFINITY),
            };
            links.books.push(book);
        }
        if let Some(staging) = &transfer.staging {
            links.copies = links.books.len();
            for (way, rate) in [
                ("to host", staging.out_bytes_per_sec),
                ("from host", staging.into_bytes_per_sec),
            ] {
                let book = |name| Book::new(format!("{name} {way}"), LinkKind::Copies, rate);
                links.books.extend(names.iter().map(book));
            }
        }
        if let Some(sharing) = &transfer.sharing {
            links.add_ports(sharing, &names);
        }
        links
    }

    fn add_ports(&mut self, sharing: &Sharing, names: &[String]) {
        let topology = &sharing.topology;
        let first = self.books.len();
        for &capacity in &topology.ports {
            let book = Book::new(String::new(), LinkKind::Port, capacity);
            self.books.push(book);
        }
        for (place, name) in topology.places.iter().zip(names) {
            let shared = |other: &&Place| other.network == place.network;
            let whole_node = topology.places.iter().filter(shared).count() > 1;
            let cards = if whole_node {
                format!("node {} cards", place.node)
            } else {
                format!("{name} card")
            };
            let sides = [
                (format!("{name} inside"), Some(place.inside)),
                (cards, Some(place.network)),
                (format!("{name} host"), place.host),
            ];
            for (side, ports) in sides {
                for (way, port) in ["out", "in"].into_iter().zip(ports.into_iter().flatten()) {
                    self.books[first + port as usize].link = format!("{side} {way}");
                }
            }
        }
        let books = (first..self.books.len()).collect();
        self.network = Some((topology.clone(), books));
    }

    /// Books a transfer that has ended, for a measured span from `from` on.
    pub(super) fn book(&mut self, fact: &TransferFact, from: SimTime) {
        if self.books.is_empty() {
            return;
        }
        let clip = |start: SimTime, end: SimTime| {
            let inside = end.saturating_since(start.max(from));
            inside.as_ps() as f64
        };
        let post = fact.poster.index();
        let posted = if self.network.is_some() {
            clip(fact.turn, fact.wire)
        } else {
            let rate = self.books[post].bytes_per_s * seconds(1);
            let early = if fact.queued >= from {
                fact.early_bytes as f64 / rate
            } else {
                0.0
            };
            clip(fact.turn, fact.landed) + early
        };
        self.books[post].busy += posted;
        self.note(post, fact, from);
        if self.staging.is_some() {
            let copies = [(fact.from, 0), (fact.to, self.instances)];
            let times = [(fact.departed, fact.ready), (fact.up, fact.ended)];
            for ((instance, offset), (start, end)) in copies.into_iter().zip(times) {
                let at = self.copies + offset + instance.index();
                self.books[at].busy += clip(start, end);
                self.note(at, fact, from);
            }
        }
        self.book_ports(fact, from, clip(fact.wire, fact.landed));
    }

    /// Books the bytes of a transfer that was on the wire for `inside` picoseconds of the measured span.
    fn book_ports(&mut self, fact: &TransferFact, from: SimTime, inside: f64) {
        let Some((topology, ports)) = &self.network else {
            return;
        };
        let wire = fact.landed.saturating_since(fact.wire).as_ps() as f64;
        let late = (fact.bytes - fact.early_bytes) as f64;
        let share = match (wire > 0.0, fact.landed >= from) {
            (true, _) => inside / wire,
            (false, measured) => f64::from(u8::from(measured)),
        };
        let early = if fact.queued >= from {
            fact.early_bytes as f64
        } else {
            0.0
        };
        let path = topology.path(fact.from, fact.to);
        let at: Vec<usize> = path.ports().iter().map(|&p| ports[p as usize]).collect();
        for at in at {
            self.books[at].busy += late * share + early;
            self.note(at, fact, from);
        }
    }

    fn note(&mut self, at: usize, fact: &TransferFact, from: SimTime) {
        if fact.queued < from {
            return;
        }
        let book = &mut self.books[at];
        book.transfers += 1;
        book.bytes += fact.bytes;
        book.early += fact.early_bytes;
        book.queue.record(fact.waited(), 1);
        book.exposed.record(fact.exposed(), 1);
    }

    /// The figures of the links that carried something, over a measured span: for whomever, so there may be no transfer to count.
    pub(super) fn metrics(&self, span_s: f64) -> Vec<LinkMetrics> {
        let used = self.books.iter();
        let used = used.filter(|book| book.transfers > 0 || book.busy > 0.0);
        used.map(|book| book.metrics(span_s)).collect()
    }
}

impl Book {
    fn new(link: String, kind: LinkKind, bytes_per_s: f64) -> Self {
        Self {
            link,
            kind,
            bytes_per_s,
            transfers: 0,
            bytes: 0,
            early: 0,
            busy: 0.0,
            queue: Histogram::default(),
            exposed: Histogram::default(),
        }
    }

    fn metrics(&self, span_s: f64) -> LinkMetrics {
        let could = match self.kind {
            LinkKind::Port => span_s * self.bytes_per_s,
            LinkKind::Link | LinkKind::Posting | LinkKind::Copies => span_s / seconds(1),
        };
        let [queue, exposed] = [&self.queue, &self.exposed].map(|histogram| {
            let shape = histogram.distribution();
            shape.map_or([0.0; 3], |d| [d.mean_ms, d.p90_ms, d.max_ms])
        });
        LinkMetrics {
            link: self.link.clone(),
            kind: self.kind,
            transfers: self.transfers,
            bytes: self.bytes,
            early_bytes: self.early,
            bytes_per_s: self.bytes_per_s.is_finite().then_some(self.bytes_per_s),
            utilisation: if could > 0.0 { self.busy / could } else { 0.0 },
            queue_mean_ms: queue[0],
            queue_p90_ms: queue[1],
            queue_max_ms: queue[2],
            exposed_mean_ms: exposed[0],
            exposed_p90_ms: exposed[1],
            exposed_max_ms: exposed[2],
        }
    }
}

/// The instances by pool and number, as `requests.csv` numbers them.
fn names(pools: &[PoolSpec]) -> Vec<String> {
    let of = |pool: &PoolSpec| std::iter::repeat_n(pool.name.clone(), pool.instances as usize);
    let names = pools.iter().flat_map(of).enumerate();
    names.map(|(id, name)| format!("{name} {id}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::InstanceId;
    use crate::metrics::testing::system;
    use crate::units::SimDuration;

    fn at(s: u64) -> SimTime {
        SimTime::ZERO + SimDuration::from_ms(1000 * s)
    }

    /// Queued at 0, posted from 2 s to 3 s, on the wire until 13 s: 100 bytes, 20 of them early.
    fn fact() -> TransferFact {
        TransferFact {
            from: InstanceId::new(0),
            to: InstanceId::new(1),
            poster: InstanceId::new(0),
            queued: at(0),
            departed: at(0),
            ready: at(0),
            turn: at(2),
            wire: at(3),
            landed: at(13),
            up: at(13),
            ended: at(13),
            bytes: 100,
            early_bytes: 20,
            held_tokens: 0,
        }
    }

    #[test]
    fn a_link_of_its_own_is_taken_from_posting_to_the_last_byte() {
        let mut links = Links::new(&system());
        links.book(&fact(), SimTime::ZERO);
        let seen = links.metrics(20.0);
        assert_eq!(seen.len(), 1, "one link carried something");
        let link = &seen[0];
        assert_eq!(
            (link.link.as_str(), link.kind),
            ("prefill 0 out", LinkKind::Link)
        );
        assert!((link.utilisation - 11.0 / 20.0).abs() < 1e-9, "{link:?}");
        assert!((link.queue_mean_ms - 2000.0).abs() < 1e-6, "{link:?}");
        assert!((link.exposed_mean_ms - 11_000.0).abs() < 1e-6, "{link:?}");
        assert_eq!((link.bytes, link.early_bytes), (100, 20));
    }

    #[test]
    fn a_link_that_carried_only_what_was_queued_before_the_window_is_shown_as_taken() {
        let mut links = Links::new(&system());
        links.book(&fact(), at(8));
        let seen = links.metrics(12.0);
        assert_eq!((seen.len(), seen[0].transfers), (1, 0));
        assert!((seen[0].utilisation - 5.0 / 12.0).abs() < 1e-9, "{seen:?}");
        links = Links::new(&system());
        links.book(&fact(), at(14));
        assert!(links.metrics(12.0).is_empty(), "it was done by then");
    }

    #[test]
    fn before_the_measured_span_only_its_rest_counts_as_use() {
        let mut links = Links::new(&system());
        links.book(&fact(), at(8));
        assert_eq!(links.metrics(20.0)[0].transfers, 0, "none was queued in it");
        let later = TransferFact {
            queued: at(9),
            ready: at(9),
            departed: at(9),
            turn: at(13),
            wire: at(14),
            landed: at(15),
            up: at(15),
            ended: at(15),
            ..fact()
        };
        links.book(&later, at(8));
        let link = &links.metrics(10.0)[0];
        assert_eq!(link.transfers, 1);
        assert!(
            (link.utilisation - 0.7).abs() < 1e-9,
            "5 s and 2 s of 10 s: {link:?}"
        );
    }

    #[test]
    fn a_port_is_used_by_bytes_and_posting_by_time() {
        let mut system = system();
        let place = |i: u32| Place {
            node: i,
            inside: [4, 5],
            network: [2 * i, 2 * i + 1],
            host: None,
        };
        system.transfer.sharing = Some(Sharing {
            topology: Topology {
                ports: vec![20.0, 20.0, 20.0, 10.0, 1.0, 1.0],
                most_per_transfer: f64::INFINITY,
                places: vec![place(0), place(1)],
            },
            in_flight: 1,
        });
        let mut links = Links::new(&system);
        links.book(&fact(), SimTime::ZERO);
        let seen: Vec<(String, f64)> = links
            .metrics(20.0)
            .iter()
            .map(|link| (link.link.clone(), link.utilisation))
            .collect();
        let expected = [
            ("prefill 0 posting", 1.0 / 20.0),
            ("prefill 0 card out", 100.0 / 400.0),
            ("decode 1 card in", 100.0 / 200.0),
        ];
        assert_eq!(seen.len(), expected.len(), "{seen:?}");
        for ((name, share), (link, seen)) in expected.into_iter().zip(seen) {
            assert_eq!(link, name);
            assert!((seen - share).abs() < 1e-9, "{name}: {seen}");
        }
    }
}
