//! Closing the books: from counters and records to figures.

use super::collector::{Collector, PoolBook, seconds};
use super::cost::{Cost, Item};
use super::grounds::Grounds;
use super::links::LinkMetrics;
use super::result::{
    Attainment, Distribution, LittlesLaw, PoolMetrics, RunMetrics, StageMeans, State, Throughput,
    TransferMetrics,
};
use super::series::Series;
use super::verdict::{Evidence, verdict};
use super::warning::Warning;
use crate::cluster::{RequestRecord, Role};
use crate::units::{SimDuration, SimTime};

/// The three latencies of a request.
struct Shapes {
    ttft: Option<Distribution>,
    tpot: Option<Distribution>,
    e2e: Option<Distribution>,
}

/// Makes the figures of a run.
pub(super) fn close(books: Collector) -> RunMetrics {
    // Without a measured arrival there is no window; an empty one at the end keeps every rate finite.
    let start = books.window_start.min(books.end);
    let window = (start, books.last_arrival.max(start));
    let span_s = (books.end.saturating_since(start)).as_secs_f64();
    let shapes = shapes(&books);
    let pools = pools(&books, span_s, window);
    let links = books.links.metrics(span_s);
    let busiest = busiest(&links);
    let roles: Vec<Role> = books.pools.iter().map(|p| p.role).collect();
    let mean_e2e_s = shapes.e2e.as_ref().map(|d| d.mean_ms / 1e3);
    let verdict = verdict(&Evidence {
        series: &books.series,
        window,
        roles: &roles,
        pools: &pools,
        link_busy: busiest.map_or(0.0, |link| link.utilisation),
        mean_e2e_s,
        preempting: books.sums.preemptions * 20 > books.counts.measured,
        client: books.config.client,
        held_back: books.client.growth(),
    });
    let window_s = window.1.saturating_since(window.0).as_secs_f64();
    let unmeasured_share = unmeasured_share(&books);
    let mut warnings = warnings(&books, &shapes, window_s, verdict.state);
    warnings.extend(busiest.and_then(Warning::saturated));
    warnings.extend(Warning::idle(&pools));
    warnings.extend(unmeasured_share.and_then(Warning::extrapolated));
    let offered_per_s = per(books.counts.measured.saturating_sub(1) as f64, window_s);
    RunMetrics {
        verdict,
        counts: books.counts,
        attainment: attainment(&books),
        itl: books.itl.distribution(),
        throughput: throughput(&books, span_s, offered_per_s),
        cost: cost(&books, span_s),
        offered_per_s,
        gpus: books.pools.iter().map(|p| p.gpus).sum(),
        window_start_s: start.as_secs_f64(),
        last_arrival_s: books.last_arrival.as_secs_f64(),
        end_s: books.end.as_secs_f64(),
        preemptions: books.sums.preemptions,
        stages: stage_means(&books),
        little: little(&books, start),
        pools,
        links,
        transfers: transfers(&books),
        warnings,
        unmeasured_share,
        ttft: shapes.ttft,
        tpot: shapes.tpot,
        e2e: shapes.e2e,
        client_wait: books.client.distribution(),
        client_waits: books.client.all,
        client: books.config.client,
        series: books.series,
        records: books.config.keep_requests.then_some(books.records),
    }
}

fn busiest(links: &[LinkMetrics]) -> Option<&LinkMetrics> {
    let by_use = |a: &&LinkMetrics, b: &&LinkMetrics| a.utilisation.total_cmp(&b.utilisation);
    links.iter().max_by(by_use)
}

/// Share of the kernel time of all pools outside measured ranges; none where step times know no kernels.
fn unmeasured_share(books: &Collector) -> Option<f64> {
    let pools = books.pools.iter().filter_map(|pool| pool.grounds.as_ref());
    let (measured, all) = pools
        .map(Grounds::seconds)
        .fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
    (all > 0.0).then(|| 1.0 - measured / all)
}

/// Good requests, if there is something to hold them against.
fn attainment(books: &Collector) -> Option<Attainment> {
    books.config.slo.map(|_| Attainment {
        of: books.counts.measured,
        ..books.attainment
    })
}

/// What to know before trusting the figures of a run whose arrivals lasted `window_s`.
fn warnings(books: &Collector, shapes: &Shapes, window_s: f64, state: State) -> Vec<Warning> {
    let with_ttft = shapes.ttft.as_ref().map_or(0, |d| d.count);
    let (preemptions, worst) = (books.sums.preemptions, books.too_large.clone());
    let mut warnings = Warning::from_counts(&books.counts, preemptions, with_ttft, worst);
    // Under overload E2E grows with the run, which no length of run gets ahead of; the verdict says so.
    let settles = state != State::Overloaded;
    let mean_e2e_s = shapes.e2e.as_ref().map(|d| d.mean_ms / 1e3);
    if let Some(e2e_s) = mean_e2e_s.filter(|e2e| settles && window_s < 5.0 * e2e) {
        warnings.push(Warning::HorizonTooShort { window_s, e2e_s });
    }
    warnings
}

fn shapes(books: &Collector) -> Shapes {
    if !books.config.keep_requests {
        return Shapes {
            ttft: books.latencies.ttft.distribution(),
            tpot: books.latencies.tpot.distribution(),
            e2e: books.latencies.e2e.distribution(),
        };
    }
    let of = |value: fn(&RequestRecord) -> Option<f64>| {
        let mut values: Vec<f64> = books
            .records
            .iter()
            .filter(|record| books.measures(record))
            .filter_map(value)
            .collect();
        Distribution::of(&mut values)
    };
    Shapes {
        ttft: of(|r| r.ttft().map(SimDuration::as_ms_f64)),
        tpot: of(|r| r.tpot_secs().map(|s| s * 1e3)),
        e2e: of(|r| r.e2e().map(SimDuration::as_ms_f64)),
    }
}

fn throughput(books: &Collector, span_s: f64, offered_per_s: f64) -> Throughput {
    let (met, measured) = (books.attainment.met as f64, books.counts.measured as f64);
    // What was asked for, per second of asking: the drain after the last arrival is no time in which more could be good.
    // A client that sends whenever it may asks for no more than it gets.
    let asks = offered_per_s > 0.0 && !books.config.client.is_saturating();
    let good_per_s = if asks {
        per(met, measured) * offered_per_s
    } else {
        per(met, span_s)
    };
    Throughput {
        requests_per_s: per(books.counts.done as f64, span_s),
        good_requests_per_s: books.config.slo.map(|_| good_per_s),
        input_tokens_per_s: per(books.sums.input_tokens as f64, span_s),
        output_tokens_per_s: per(books.sums.output_tokens as f64, span_s),
    }
}

fn cost(books: &Collector, span_s: f64) -> Cost {
    let items: Vec<Item> = books
        .pools
        .iter()
        .map(|pool| Item {
            gpus: pool.gpus,
            usd_per_hour: pool.bill.usd_per_hour,
            power_w: pool.bill.power_w,
        })
        .collect();
    let good = books.config.slo.map(|_| books.sums.good_output_tokens);
    Cost::of(&items, span_s, books.sums.output_tokens, good)
}

/// A rate; 0 over no time.
fn per(amount: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { amount / seconds } else { 0.0 }
}

fn pools(books: &Collector, span_s: f64, window: (SimTime, SimTime)) -> Vec<PoolMetrics> {
    let pools = books.pools.iter().enumerate();
    pools
        .map(|(i, book)| {
            let kv = (kv_peak(books, i), mean_kv(&books.series, i, window));
            pool_metrics(book, span_s, kv)
        })
        .collect()
}

/// The figures of a pool; of its KV memory the most blocks in use on an instance and the mean share.
fn pool_metrics(
    book: &PoolBook,
    span_s: f64,
    (kv_peak_blocks, kv_mean): (u64, Option<f64>),
) -> PoolMetrics {
    let all = span_s * f64::from(book.instances);
    let stages = all * f64::from(book.stages);
    let [prefill, decode, mixed] = book.busy.map(|ps| per(seconds(ps), stages));
    PoolMetrics {
        name: book.name.clone(),
        role: match book.role {
            Role::Both => "both",
            Role::Prefill => "prefill",
            Role::Decode => "decode",
        },
        gpu: book.gpu.clone(),
        instances: book.instances,
        gpus: book.gpus,
        busy: per(seconds(book.busy.iter().sum()), stages),
        busy_prefill: prefill,
        busy_decode: decode,
        busy_mixed: mixed,
        streams: book.streams,
        steps: book.steps,
        mean_decode_batch: (book.decode_steps > 0)
            .then(|| book.decoded as f64 / book.decode_steps as f64),
        mean_prefill_batch: (book.prefill_steps > 0)
            .then(|| book.prompts as f64 / book.prefill_steps as f64),
        kv_peak_blocks,
        kv_capacity_blocks: book.kv_capacity,
        kv_mean,
        link_busy: per(seconds(book.sending), all),
        held_tokens: book.held_tokens,
        preemptions: book.preemptions,
        role_switches: book.switches,
        role_shares: book.roles.map(|ps| per(seconds(ps), all)),
        prefix: (book.prefix.prompt_tokens > 0).then_some(book.prefix),
    }
}

/// Most KV blocks in use on an instance of a pool.
fn kv_peak(books: &Collector, pool: usize) -> u64 {
    let levels = books.kv.iter().zip(&books.pool_of);
    let mine = levels.filter(|(_, of)| **of == pool);
    mine.map(|(level, _)| level.peak).max().unwrap_or(0)
}

/// Mean share of a pool's KV blocks in use over the samples of the window; none for unlimited memory.
fn mean_kv(series: &Series, pool: usize, (start, end): (SimTime, SimTime)) -> Option<f64> {
    let (used, capacity) = series
        .iter()
        .filter(|(point, _)| start <= point.time && point.time <= end)
        .fold((0_u128, 0_u128), |(used, capacity), (_, pools)| {
            (
                used + u128::from(pools[pool].kv_used),
                capacity + u128::from(pools[pool].kv_capacity),
            )
        });
    (capacity > 0).then(|| used as f64 / capacity as f64)
}

fn transfers(books: &Collector) -> Option<TransferMetrics> {
    let transfers = &books.transfers;
    let mean_ms = |ps| seconds(ps) * 1e3 / transfers.count as f64;
    (transfers.count > 0).then(|| TransferMetrics {
        count: transfers.count,
        bytes: transfers.bytes,
        early_bytes: transfers.early_bytes,
        queue_mean_ms: mean_ms(transfers.waited),
        exposed_mean_ms: mean_ms(transfers.exposed),
    })
}

fn stage_means(books: &Collector) -> StageMeans {
    let done = books.counts.done.max(1) as f64;
    let [
        router,
        queue,
        prefill,
        transfer_queue,
        transfer,
        decode_queue,
    ] = books.sums.stages.map(|ps| seconds(ps) * 1e3 / done);
    StageMeans {
        router_wait_ms: router,
        prefill_queue_ms: queue,
        prefill_ms: prefill,
        transfer_queue_ms: transfer_queue,
        transfer_ms: transfer,
        decode_queue_ms: decode_queue,
    }
}

fn little(books: &Collector, start: SimTime) -> LittlesLaw {
    let span_s = books.end.saturating_since(start).as_secs_f64();
    let sojourn = &books.sojourn;
    let samples: Vec<u64> = books
        .series
        .iter()
        .filter(|(point, _)| start <= point.time && point.time <= books.end)
        .map(|(_, pools)| {
            pools
                .iter()
                .map(|p| p.waiting + p.prefilling + p.handing_off + p.decoding)
                .sum()
        })
        .collect();
    LittlesLaw {
        mean_in_system: per(seconds(sojourn.area), span_s),
        rate_times_sojourn: per(seconds(sojourn.sum), span_s),
        exact: sojourn.area == sojourn.sum && !sojourn.disordered,
        mean_sampled: (samples.len() > 1)
            .then(|| samples.iter().sum::<u64>() as f64 / samples.len() as f64),
    }
}
