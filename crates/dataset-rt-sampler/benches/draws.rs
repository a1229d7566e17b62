//! Times draws of each order and the building of weight tables, per row.
//!
//! `cargo bench -p dataset-rt-sampler -- '1000000 rows'` runs one population; that of 100 million rows takes
//! 2.4 GB of memory.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, Throughput};
use dataset_rt_sampler::{AliasEntry, InOrder, OrderKind, Stream, WeightTable, philox4x32_10};

const POPULATIONS: [usize; 3] = [1_000, 1_000_000, 100_000_000];

/// Draws per call: a batch of a loader, or one of an export.
const BATCHES: [usize; 2] = [256, 65_536];

fn random_weights(population: usize) -> Vec<f64> {
    let weight = |row: usize| {
        let [word, ..] = philox4x32_10([row as u32, 0, 0, 0], [0, 0]);
        f64::from(word) + 1.0
    };
    (0..population).map(weight).collect()
}

fn fill(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("fill");
    for population in POPULATIONS {
        // Made by the first benchmark that the filter lets through.
        let mut table = None;
        for batch in BATCHES {
            group.throughput(Throughput::Elements(batch as u64));
            for kind in [
                OrderKind::Sequential,
                OrderKind::Permutation,
                OrderKind::Weighted,
            ] {
                for is_weighted in [false, true] {
                    if is_weighted && kind != OrderKind::Weighted {
                        continue;
                    }
                    let name = if is_weighted {
                        "weighted by table"
                    } else {
                        kind.name()
                    };
                    let id = BenchmarkId::new(name, format!("{population} rows by {batch}"));
                    group.bench_function(id, |bencher| {
                        let weight_table = is_weighted.then(|| {
                            let build = || build_table(&random_weights(population));
                            Arc::clone(table.get_or_insert_with(build))
                        });
                        let rows = population as u64;
                        let stream = Stream::new(kind, 42, rows, weight_table, None)
                            .expect("the table has one entry per row");
                        let mut rows = vec![0; batch];
                        let mut position = 0;
                        bencher.iter(|| {
                            stream.fill(position, &mut rows);
                            position += batch as u64;
                            black_box(rows[0])
                        });
                    });
                }
            }
        }
    }
    group.finish();
}

fn row(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("row");
    for kind in [
        OrderKind::Sequential,
        OrderKind::Permutation,
        OrderKind::Weighted,
    ] {
        group.bench_function(kind.name(), |bencher| {
            let stream =
                Stream::new(kind, 42, 1_000_000, None, None).expect("there are rows to draw");
            let mut position = 0;
            bencher.iter(|| {
                position += 1;
                stream.row(position)
            });
        });
    }
    group.finish();
}

fn build(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("build");
    for population in POPULATIONS {
        group.throughput(Throughput::Elements(population as u64));
        group.sample_size(10);
        // Into new memory, whose pages the kernel first has to provide, and into memory in use.
        group.bench_function(
            BenchmarkId::new("table", format!("{population} rows")),
            |bencher| {
                let weights = random_weights(population);
                bencher.iter(|| build_table(&weights));
            },
        );
        group.bench_function(
            BenchmarkId::new("table in place", format!("{population} rows")),
            |bencher| {
                let weights = random_weights(population);
                let mut entries = vec![
                    AliasEntry {
                        threshold: 1,
                        alias: 1
                    };
                    population
                ];
                bencher.iter(|| {
                    let result = WeightTable::build_into(&weights, &mut entries, &InOrder);
                    result.expect("all weights are positive")
                });
            },
        );
    }
    group.finish();
}

fn build_table(weights: &[f64]) -> Arc<WeightTable> {
    Arc::new(WeightTable::build_always(weights).expect("all weights are positive"))
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    fill(&mut criterion);
    row(&mut criterion);
    build(&mut criterion);
    criterion.final_summary();
}
