//! The numbers of the index on their way to disk: lists that grow with the samples, joined at the end.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::StoreError;
use crate::files::create_new;
use crate::format::{ADDRESS_BYTES, CHECKSUM_BYTES};
use crate::manifest::FileEntry;

/// One list of numbers in a file of the build directory.
#[derive(Debug)]
pub(crate) struct Stream {
    path: PathBuf,
    file: File,
    hasher: blake3::Hasher,
    bytes: u64,
    buffered: Vec<u8>,
}

/// All lists that the index of a cache consists of, in its order.
#[derive(Debug)]
pub(crate) struct Streams {
    addresses: Stream,
    /// Where payloads would begin if they were not compressed.
    payload_addresses: Option<Stream>,
    checksums: Stream,
}

impl Streams {
    /// Begins the lists: the first address is that of the first record.
    pub(crate) fn create(folder: &Path, is_compressed: bool) -> Result<Self, StoreError> {
        let mut streams = Self {
            addresses: Stream::create(folder.join("addresses.part"))?,
            payload_addresses: is_compressed
                .then(|| Stream::create(folder.join("payload-addresses.part")))
                .transpose()?,
            checksums: Stream::create(folder.join("checksums.part"))?,
        };
        streams.addresses.push(&0_u64.to_le_bytes());
        if let Some(addresses) = &mut streams.payload_addresses {
            addresses.push(&0_u64.to_le_bytes());
        }
        Ok(streams)
    }

    /// Opens lists that an earlier build left behind, before anything in them is believed; `None` if
    /// one is missing.
    pub(crate) fn reopen(folder: &Path, is_compressed: bool) -> Result<Option<Self>, StoreError> {
        let open = || {
            Ok(Self {
                addresses: Stream::reopen(folder.join("addresses.part"))?,
                payload_addresses: is_compressed
                    .then(|| Stream::reopen(folder.join("payload-addresses.part")))
                    .transpose()?,
                checksums: Stream::reopen(folder.join("checksums.part"))?,
            })
        };
        match open() {
            Ok(streams) => Ok(Some(streams)),
            Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Reads on up to this number of samples, and says whether the lists are what was written.
    pub(crate) fn advance(
        &mut self,
        samples: u64,
        expected: &[FileEntry],
    ) -> Result<bool, StoreError> {
        let address_bytes = samples
            .checked_add(1)
            .and_then(|count| count.checked_mul(ADDRESS_BYTES));
        let checksum_bytes = samples.checked_mul(CHECKSUM_BYTES);
        let (Some(address_bytes), Some(checksum_bytes)) = (address_bytes, checksum_bytes) else {
            return Ok(false);
        };
        let lengths = match self.payload_addresses {
            Some(_) => vec![address_bytes, address_bytes, checksum_bytes],
            None => vec![address_bytes, checksum_bytes],
        };
        if expected.len() != lengths.len() {
            return Ok(false);
        }
        // All of them go on, or none does.
        let mut advanced = Vec::with_capacity(lengths.len());
        for ((stream, bytes), expected) in self.each().into_iter().zip(lengths).zip(expected) {
            match stream.hash_up_to(bytes, expected)? {
                Some(hasher) => advanced.push((hasher, bytes)),
                None => return Ok(false),
            }
        }
        for (stream, (hasher, bytes)) in self.each_mut().into_iter().zip(advanced) {
            stream.hasher = hasher;
            stream.bytes = bytes;
        }
        Ok(true)
    }

    /// Cuts off what lies behind the samples that were found to be good.
    pub(crate) fn truncate(&mut self) -> Result<(), StoreError> {
        self.each_mut().into_iter().try_for_each(|stream| {
            stream
                .file
                .set_len(stream.bytes)
                .map_err(StoreError::io("shorten", &stream.path))
        })
    }

    /// Adds one record: where it ends in the shards, where its payload ends, its checksum.
    #[inline]
    pub(crate) fn push(&mut self, address: u64, payload_address: u64, checksum: u32) {
        self.addresses.push(&address.to_le_bytes());
        if let Some(addresses) = &mut self.payload_addresses {
            addresses.push(&payload_address.to_le_bytes());
        }
        self.checksums.push(&checksum.to_le_bytes());
    }

    /// Writes what was added since the last call.
    pub(crate) fn flush(&mut self) -> Result<(), StoreError> {
        self.each_mut().into_iter().try_for_each(Stream::flush)
    }

    /// Lengths and digests up to now; the lists are flushed.
    pub(crate) fn entries(&self) -> Vec<FileEntry> {
        self.each().into_iter().map(Stream::entry).collect()
    }

    /// The files, to make them durable.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.each()
            .into_iter()
            .map(|stream| stream.path.clone())
            .collect()
    }

    /// Copies all lists, one after another; they are flushed.
    pub(crate) fn copy_to(&self, index: &mut impl Write, path: &Path) -> Result<(), StoreError> {
        for stream in self.each() {
            let mut reader = PositionedReader {
                file: &stream.file,
                position: 0,
            };
            io::copy(&mut reader, index).map_err(StoreError::io("write", path))?;
        }
        Ok(())
    }

    fn each(&self) -> Vec<&Stream> {
        std::iter::once(&self.addresses)
            .chain(&self.payload_addresses)
            .chain(std::iter::once(&self.checksums))
            .collect()
    }

    fn each_mut(&mut self) -> Vec<&mut Stream> {
        std::iter::once(&mut self.addresses)
            .chain(&mut self.payload_addresses)
            .chain(std::iter::once(&mut self.checksums))
            .collect()
    }
}

impl Stream {
    fn create(path: PathBuf) -> Result<Self, StoreError> {
        // Read again at the end, when the lists are joined.
        drop(create_new(&path)?);
        Self::reopen(path)
    }

    fn reopen(path: PathBuf) -> Result<Self, StoreError> {
        let file = File::options()
            .read(true)
            .write(true)
            .open(&path)
            .map_err(StoreError::io("open", &path))?;
        Ok(Self {
            path,
            file,
            hasher: blake3::Hasher::new(),
            bytes: 0,
            buffered: Vec::new(),
        })
    }

    #[inline]
    fn push(&mut self, bytes: &[u8]) {
        self.buffered.extend_from_slice(bytes);
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.file
            .write_all_at(&self.buffered, self.bytes)
            .map_err(StoreError::io("write", &self.path))?;
        self.hasher.update(&self.buffered);
        self.bytes += self.buffered.len() as u64;
        self.buffered.clear();
        Ok(())
    }

    fn entry(&self) -> FileEntry {
        FileEntry {
            bytes: self.bytes,
            blake3: self.hasher.finalize().to_hex().to_string(),
        }
    }

    /// The hash of the bytes up to a length, if it is the expected one.
    fn hash_up_to(
        &self,
        bytes: u64,
        expected: &FileEntry,
    ) -> Result<Option<blake3::Hasher>, StoreError> {
        let Some(more) = bytes.checked_sub(self.bytes) else {
            return Ok(None);
        };
        let mut hasher = self.hasher.clone();
        let mut reader = PositionedReader {
            file: &self.file,
            position: self.bytes,
        }
        .take(more);
        io::copy(&mut reader, &mut hasher).map_err(StoreError::io("read", &self.path))?;
        let is_whole = reader.limit() == 0 && expected.bytes == bytes;
        let is_good = is_whole && hasher.finalize().to_hex().as_str() == expected.blake3;
        Ok(is_good.then_some(hasher))
    }
}

/// Reads a file from a position of its own.
struct PositionedReader<'a> {
    file: &'a File,
    position: u64,
}

impl Read for PositionedReader<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let bytes = self.file.read_at(out, self.position)?;
        self.position += bytes as u64;
        Ok(bytes)
    }
}
