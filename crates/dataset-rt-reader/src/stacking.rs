//! The arrays of many payloads, stacked: one buffer for each name, filled by the threads of the pool.
//!
//! Payloads are those of `pack_arrays`, in the safetensors format. Most payloads of a dataset begin
//! with the same header, byte for byte; only where one does not is it parsed.

use std::ops::Range;

use dataset_rt_store::{Destination, Part, Record, Unwritten};
use rayon::prelude::*;
use safetensors::{Dtype, SafeTensors};

use crate::batch::Gathered;
use crate::buffers::Buffer;
use crate::error::ReaderError;
use crate::gather::{FoundRecords, Located, PARALLEL_BYTES, TASK_BYTES, destination_of};
use crate::view::View;

/// Before the header of a payload stands its length.
const HEADER_LENGTH_BYTES: usize = 8;

/// One name's arrays, one after another.
#[derive(Debug)]
pub struct StackedArray {
    /// Name in the payloads.
    pub name: String,
    /// Type of the elements.
    pub dtype: Dtype,
    /// Shape, with the number of records in front.
    pub shape: Vec<usize>,
    /// The elements.
    pub buffer: Buffer,
    /// Lengths along the padded axis, if the arrays differ there.
    pub lengths: Option<Vec<i64>>,
}

/// One array in a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    name: String,
    dtype: Dtype,
    shape: Vec<usize>,
    range: Range<usize>,
}

/// All arrays in a payload, in the order of their bytes, and the bytes in front of them.
#[derive(Debug, Clone)]
struct Layout {
    places: Vec<Place>,
    header_bytes: usize,
}

impl Layout {
    fn parse(payload: &[u8]) -> Result<Self, String> {
        let (header, metadata) =
            SafeTensors::read_metadata(payload).map_err(|error| error.to_string())?;
        let header_bytes = header
            .checked_add(HEADER_LENGTH_BYTES)
            .ok_or("its header is too long")?;
        let mut places = Vec::new();
        for (name, tensor) in metadata.tensors() {
            let (start, stop) = tensor.data_offsets;
            let range = start
                .checked_add(header_bytes)
                .zip(stop.checked_add(header_bytes))
                .filter(|&(start, stop)| start <= stop && stop <= payload.len())
                .ok_or_else(|| format!("array {name:?} lies outside its bytes"))?;
            places.push(Place {
                name,
                dtype: tensor.dtype,
                shape: tensor.shape.clone(),
                range: range.0..range.1,
            });
        }
        places.sort_by(|one, other| {
            (one.range.start, one.range.end, &one.name).cmp(&(
                other.range.start,
                other.range.end,
                &other.name,
            ))
        });
        Ok(Self {
            places,
            header_bytes,
        })
    }

    fn find(&self, name: &str) -> Option<&Place> {
        self.places.iter().find(|place| place.name == name)
    }
}

/// Where payloads are read: in the map, one by one, or in a buffer that holds all of them.
enum Payloads {
    InPlace,
    Gathered(Gathered),
}

/// What is written for one name, by one task after another.
struct Output {
    place: Place,
    /// Bytes of one record in the output.
    record_bytes: usize,
    /// How the array of a record lies in its place, if arrays may be shorter.
    padding: Option<Padding>,
}

/// An array with a ragged axis: `outer` blocks, each of `length` times `inner` bytes.
#[derive(Debug, Clone, Copy)]
struct Padding {
    axis: usize,
    outer: usize,
    longest: usize,
    inner_bytes: usize,
}

impl View {
    /// Stacks the arrays of these records. With `pad_axis`, arrays may differ in length along that
    /// axis, and zeros fill up the shorter ones.
    pub fn stack_arrays(
        &self,
        found: &FoundRecords,
        pad_axis: Option<usize>,
    ) -> Result<Vec<StackedArray>, ReaderError> {
        let caches = &*self.caches;
        let (records, located) = (&found.records, &found.located);
        let Some(first) = located.first() else {
            return Ok(Vec::new());
        };
        let all_in_place = located
            .iter()
            .all(|record| record.in_place(caches).is_some());
        // A cold disk is kept busy by gathering, and one more copy is nothing beside it.
        let is_cold = caches.coldness().is_cold();
        let payloads = if all_in_place && pad_axis.is_none() && !is_cold {
            Payloads::InPlace
        } else {
            Payloads::Gathered(self.gather(found)?)
        };
        let stacking = Stacking {
            view: self,
            located,
            payloads: &payloads,
        };
        let (layout, header) = stacking.with_payload(0, |payload| {
            let layout =
                Layout::parse(payload).map_err(|reason| stacking.unreadable(0, &reason))?;
            let header = payload[..layout.header_bytes].to_vec();
            Ok((layout, header))
        })?;
        let first_bytes = first.location.payload_bytes();
        let mut lengths: Vec<Option<Vec<i64>>> = vec![None; layout.places.len()];
        let outputs = match pad_axis {
            None => layout.places.iter().map(Output::exact).collect(),
            Some(axis) => stacking.padded_outputs(&layout, axis, &mut lengths)?,
        };
        let mut buffers = outputs
            .iter()
            .map(|output: &Output| {
                let bytes = output
                    .record_bytes
                    .checked_mul(records.len())
                    .ok_or_else(|| ReaderError::no_memory(usize::MAX, "stacked arrays"))?;
                self.pool.buffers().take(bytes)
            })
            .collect::<Result<Vec<_>, _>>()?;
        let reference = Reference {
            layout: &layout,
            header: &header,
            payload_bytes: first_bytes,
        };
        stacking.fill(&reference, &outputs, &mut buffers)?;
        let stacked = outputs.into_iter().zip(buffers).zip(lengths);
        Ok(stacked
            .map(|((output, buffer), lengths)| {
                let mut shape = vec![records.len()];
                shape.extend(&output.place.shape);
                if let Some(padding) = output.padding {
                    shape[padding.axis + 1] = padding.longest;
                }
                StackedArray {
                    name: output.place.name,
                    dtype: output.place.dtype,
                    shape,
                    buffer,
                    lengths,
                }
            })
            .collect())
    }
}

impl Output {
    fn exact(place: &Place) -> Self {
        Self {
            place: place.clone(),
            record_bytes: place.range.len(),
            padding: None,
        }
    }

    /// Copies one array into its place.
    fn write(&self, source: &[u8], place: &mut [u8]) {
        let Some(padding) = self.padding else {
            place.copy_from_slice(source);
            return;
        };
        let long_bytes = padding.longest * padding.inner_bytes;
        let short_bytes = source.len() / padding.outer.max(1);
        for outer in 0..padding.outer {
            let (filled, rest) =
                place[outer * long_bytes..(outer + 1) * long_bytes].split_at_mut(short_bytes);
            filled.copy_from_slice(&source[outer * short_bytes..(outer + 1) * short_bytes]);
            rest.fill(0);
        }
    }
}

/// What payloads are compared with.
struct Reference<'a> {
    layout: &'a Layout,
    header: &'a [u8],
    payload_bytes: usize,
}

impl Reference<'_> {
    /// Says whether a payload begins with the same header, so that its arrays lie at the same places.
    fn has_layout_of(&self, payload: &[u8]) -> bool {
        payload.len() == self.payload_bytes && payload.starts_with(self.header)
    }
}

/// Records on their way into stacked arrays.
struct Stacking<'a> {
    view: &'a View,
    located: &'a [Located],
    payloads: &'a Payloads,
}

impl Stacking<'_> {
    /// Reads one payload where it lies. What is read in the map is verified afterwards, when it is
    /// in the processor's cache, and damage goes before whatever else was wrong with it.
    fn with_payload<T>(
        &self,
        record: usize,
        read: impl FnOnce(&[u8]) -> Result<T, ReaderError>,
    ) -> Result<T, ReaderError> {
        match self.payloads {
            Payloads::Gathered(gathered) => {
                let range =
                    gathered.offsets[record] as usize..gathered.offsets[record + 1] as usize;
                read(&gathered.buffer.bytes()[range])
            }
            Payloads::InPlace => {
                let found: Option<Record<'_>> = self.located[record].in_place(&self.view.caches);
                let Some(found) = found else {
                    return read(&[]);
                };
                let result = read(found.payload);
                if self.view.read.verify_reads {
                    found.verify(found.payload)?;
                } else {
                    found.check()?;
                }
                result
            }
        }
    }

    /// Fills all buffers, in parallel where there is enough to do.
    fn fill(
        &self,
        reference: &Reference<'_>,
        outputs: &[Output],
        buffers: &mut [Buffer],
    ) -> Result<(), ReaderError> {
        let record_bytes: usize = outputs.iter().map(|output| output.record_bytes).sum();
        let records_per_task = (TASK_BYTES / record_bytes.max(1)).max(1);
        let mut rests: Vec<&mut [u8]> = buffers.iter_mut().map(Buffer::bytes_mut).collect();
        let mut tasks = Vec::new();
        let mut first = 0;
        while first < self.located.len() {
            let count = records_per_task.min(self.located.len() - first);
            let mut places = Vec::with_capacity(outputs.len());
            rests = rests
                .into_iter()
                .zip(outputs)
                .map(|(rest, output)| {
                    let (place, rest) = rest.split_at_mut(output.record_bytes * count);
                    places.push(place);
                    rest
                })
                .collect();
            tasks.push((first..first + count, places));
            first += count;
        }
        let destination = destination_of(record_bytes.saturating_mul(self.located.len()));
        let run = |(records, mut places): (Range<usize>, Vec<&mut [u8]>)| {
            let first = records.start;
            let coldness = self.view.caches.coldness();
            coldness.watch(records.len() as u64, || {
                Located::visit_all(&self.view.caches, &self.located[records], |number, _| {
                    let record = first + number;
                    if self.stack_whole(
                        record,
                        number,
                        reference,
                        outputs,
                        &mut places,
                        destination,
                    )? {
                        return Ok(());
                    }
                    self.with_payload(record, |payload| {
                        self.stack_one(record, payload, reference, outputs, number, &mut places)
                    })
                })
            })
        };
        let pool = &self.view.pool;
        if record_bytes * self.located.len() < PARALLEL_BYTES || pool.num_threads() == 1 {
            return tasks.into_iter().try_for_each(run);
        }
        pool.threads()?
            .install(|| tasks.into_par_iter().try_for_each(run))
    }

    /// Copies and verifies a record in one pass, if it lies in the map with the arrays of the first
    /// record at the places of the first record, all of them to be copied as they are.
    fn stack_whole(
        &self,
        record: usize,
        number: usize,
        reference: &Reference<'_>,
        outputs: &[Output],
        places: &mut [&mut [u8]],
        destination: Destination,
    ) -> Result<bool, ReaderError> {
        let found = match self.payloads {
            Payloads::InPlace => self.located[record].in_place(&self.view.caches),
            Payloads::Gathered(_) => None,
        };
        let Some(found) = found.filter(|found| reference.has_layout_of(found.payload)) else {
            return Ok(false);
        };
        let mut parts: Vec<_> = outputs
            .iter()
            .zip(places)
            .map(|(output, place)| Part {
                start: output.place.range.start,
                place: Unwritten::from(
                    &mut place[number * output.record_bytes..][..output.record_bytes],
                ),
            })
            .collect();
        found.copy_parts(&mut parts, self.view.read.verify_reads, destination)?;
        Ok(true)
    }

    fn stack_one(
        &self,
        record: usize,
        payload: &[u8],
        reference: &Reference<'_>,
        outputs: &[Output],
        number: usize,
        places: &mut [&mut [u8]],
    ) -> Result<(), ReaderError> {
        let own_layout = if reference.has_layout_of(payload) {
            None
        } else {
            let layout =
                Layout::parse(payload).map_err(|reason| self.unreadable(record, &reason))?;
            self.compare(record, &layout, reference.layout, outputs)?;
            Some(layout)
        };
        for (output, place) in outputs.iter().zip(places) {
            let range = match &own_layout {
                None => Some(&output.place.range),
                Some(layout) => layout.find(&output.place.name).map(|place| &place.range),
            };
            let bytes = output.record_bytes;
            if let Some(range) = range {
                output.write(
                    &payload[range.clone()],
                    &mut place[number * bytes..(number + 1) * bytes],
                );
            }
        }
        Ok(())
    }

    /// Refuses a record whose arrays do not fit those of the first.
    fn compare(
        &self,
        record: usize,
        layout: &Layout,
        first: &Layout,
        outputs: &[Output],
    ) -> Result<(), ReaderError> {
        for output in outputs {
            let expected = &output.place;
            let fits = |found: &Place| {
                found.dtype == expected.dtype
                    && found.shape.len() == expected.shape.len()
                    && found.shape.iter().zip(&expected.shape).enumerate().all(
                        |(axis, (found, expected))| {
                            found == expected
                                || output.padding.is_some_and(|padding| padding.axis == axis)
                        },
                    )
            };
            match layout.find(&expected.name) {
                Some(found) if fits(found) => {}
                found => return Err(self.differing(record, &expected.name, found, Some(expected))),
            }
        }
        let extra = layout
            .places
            .iter()
            .find(|place| first.find(&place.name).is_none());
        match extra {
            Some(place) => Err(self.differing(record, &place.name, Some(place), None)),
            None => Ok(()),
        }
    }

    /// Finds the greatest length along the ragged axis for each name.
    fn padded_outputs(
        &self,
        layout: &Layout,
        axis: usize,
        lengths: &mut [Option<Vec<i64>>],
    ) -> Result<Vec<Output>, ReaderError> {
        let mut outputs: Vec<_> = layout
            .places
            .iter()
            .map(|place| Output {
                padding: (axis < place.shape.len()).then_some(Padding {
                    axis,
                    outer: place.shape[..axis.min(place.shape.len())].iter().product(),
                    longest: 0,
                    inner_bytes: 0,
                }),
                ..Output::exact(place)
            })
            .collect();
        let mut found_lengths: Vec<Vec<i64>> = vec![Vec::new(); outputs.len()];
        for record in 0..self.located.len() {
            self.with_payload(record, |payload| {
                let own =
                    Layout::parse(payload).map_err(|reason| self.unreadable(record, &reason))?;
                self.compare(record, &own, layout, &outputs)?;
                for (output, lengths) in outputs.iter_mut().zip(&mut found_lengths) {
                    let (Some(padding), Some(place)) =
                        (&mut output.padding, own.find(&output.place.name))
                    else {
                        continue;
                    };
                    let length = place.shape[axis];
                    padding.longest = padding.longest.max(length);
                    let blocks = padding.outer.saturating_mul(length);
                    if let Some(inner_bytes) = place.range.len().checked_div(blocks) {
                        padding.inner_bytes = inner_bytes;
                    }
                    lengths.push(length as i64);
                }
                Ok(())
            })?;
        }
        for (number, output) in outputs.iter_mut().enumerate() {
            let Some(padding) = output.padding else {
                continue;
            };
            let found = std::mem::take(&mut found_lengths[number]);
            if found.iter().all(|&length| length == found[0]) {
                output.padding = None;
                continue;
            }
            output.record_bytes = padding
                .outer
                .checked_mul(padding.longest)
                .and_then(|blocks| blocks.checked_mul(padding.inner_bytes))
                .ok_or_else(|| ReaderError::no_memory(usize::MAX, "stacked arrays"))?;
            lengths[number] = Some(found);
        }
        Ok(outputs)
    }

    fn name_of(&self, record: usize) -> String {
        let located = &self.located[record];
        let cache = located.cache(&self.view.caches);
        format!(
            "sample {} of cache {:?}",
            located.location.sample(),
            cache.name()
        )
    }

    fn unreadable(&self, record: usize, reason: &str) -> ReaderError {
        ReaderError::NotStackable {
            reason: format!(
                "{} is not the bytes of packed arrays: {reason}",
                self.name_of(record)
            ),
        }
    }

    fn differing(
        &self,
        record: usize,
        name: &str,
        found: Option<&Place>,
        expected: Option<&Place>,
    ) -> ReaderError {
        let described = |place: Option<&Place>| {
            place.map_or_else(
                || "none".to_owned(),
                |place| format!("{:?} of shape {:?}", place.dtype, place.shape),
            )
        };
        let hint = found
            .zip(expected)
            .and_then(|(one, other)| ragged_axis(one, other));
        let hint = hint.map_or_else(String::new, |axis| {
            format!("\nhint: CachedBatch.arrays(pad_axis={axis}) fills up the shorter ones")
        });
        ReaderError::NotStackable {
            reason: format!(
                "array {name:?} is {} in {} and {} in {}, and only arrays that agree are stacked{hint}",
                described(found),
                self.name_of(record),
                described(expected),
                self.name_of(0),
            ),
        }
    }
}

/// The axis in which two arrays differ, if it is one and they agree in all else.
fn ragged_axis(one: &Place, other: &Place) -> Option<usize> {
    if one.dtype != other.dtype || one.shape.len() != other.shape.len() {
        return None;
    }
    let lengths = one.shape.iter().zip(&other.shape);
    let mut differing = lengths.enumerate().filter(|(_, (one, other))| one != other);
    match (differing.next(), differing.next()) {
        (Some((axis, _)), None) => Some(axis),
        _ => None,
    }
}
