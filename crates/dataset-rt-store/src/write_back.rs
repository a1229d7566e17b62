//! A thread that makes shards durable while later ones are being written.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::error::StoreError;
use crate::files::{sync_directory, sync_file};
use crate::format::SHARDS_FOLDER;
use crate::journal::{Journal, SealedShard};
use crate::pipeline::{StageTimes, add_elapsed, spawn};

/// Complete shards that may wait; those that do are made durable together.
const QUEUED_SHARDS: usize = 64;

/// A file and its path.
pub(crate) type OpenFile = (Arc<File>, PathBuf);

pub(crate) enum Request {
    /// Begin to write the dirty pages of a file.
    WriteBack(OpenFile),
    /// A shard is complete. What goes with it into the journal is made durable first.
    Sealed {
        shard: OpenFile,
        journal: Option<JournalEntry>,
    },
}

/// A sealed shard for the journal, and the other files that must be durable before it is there.
pub(crate) struct JournalEntry {
    pub(crate) sealed: SealedShard,
    pub(crate) files: Vec<PathBuf>,
}

pub(crate) struct WriteBack {
    requests: Sender<Request>,
    thread: JoinHandle<Result<(), StoreError>>,
}

impl WriteBack {
    pub(crate) fn start(
        cache_folder: &Path,
        journal: Option<Journal>,
        sealed_shards: Arc<AtomicU64>,
        times: Arc<StageTimes>,
    ) -> Result<Self, StoreError> {
        let (requests, incoming) = bounded(QUEUED_SHARDS);
        let worker = Worker {
            shards_folder: cache_folder.join(SHARDS_FOLDER),
            journal,
            sealed_shards,
            times,
        };
        let thread = spawn("sync", "write-back", move || worker.run(&incoming))?;
        Ok(Self { requests, thread })
    }

    /// Asks for write-back of what is written so far, unless the thread is busy.
    pub(crate) fn write_back(&self, file: OpenFile) {
        if self.requests.is_empty() {
            // A closed queue is fine: `seal` makes sure of everything.
            let _ = self.requests.try_send(Request::WriteBack(file));
        }
    }

    /// Queues a complete shard; says `false` if the thread has failed.
    pub(crate) fn seal(&self, shard: OpenFile, journal: Option<JournalEntry>) -> bool {
        self.requests
            .send(Request::Sealed { shard, journal })
            .is_ok()
    }

    /// Waits until all shards are durable.
    pub(crate) fn finish(self) -> Result<(), StoreError> {
        drop(self.requests);
        match self.thread.join() {
            Ok(result) => result,
            Err(_) => Err(StoreError::PipelinePanic {
                name: "write-back".to_owned(),
            }),
        }
    }
}

struct Worker {
    shards_folder: PathBuf,
    journal: Option<Journal>,
    sealed_shards: Arc<AtomicU64>,
    times: Arc<StageTimes>,
}

impl Worker {
    fn run(mut self, requests: &Receiver<Request>) -> Result<(), StoreError> {
        while let Ok(first) = requests.recv() {
            let started = Instant::now();
            let group: Vec<Request> = std::iter::once(first).chain(requests.try_iter()).collect();
            self.serve(group)?;
            add_elapsed(&self.times.sync, started);
        }
        Ok(())
    }

    /// Shards first, then the lists and rows that belong to them, the journal last.
    fn serve(&mut self, group: Vec<Request>) -> Result<(), StoreError> {
        let mut lines = String::new();
        let mut line_count = 0;
        let mut files = BTreeSet::new();
        for request in group {
            match request {
                Request::WriteBack((file, path)) => {
                    file.sync_data().map_err(StoreError::io("sync", path))?;
                }
                Request::Sealed {
                    shard: (file, path),
                    journal,
                } => {
                    file.sync_all().map_err(StoreError::io("sync", path))?;
                    if let (Some(entry), Some(journal)) = (journal, &self.journal) {
                        lines.push_str(&journal.line(&entry.sealed)?);
                        line_count += 1;
                        files.extend(entry.files);
                    }
                }
            }
        }
        if let Some(journal) = &mut self.journal
            && line_count > 0
        {
            files.iter().try_for_each(|path| sync_file(path))?;
            sync_directory(&self.shards_folder)?;
            if let Some(build_folder) = self.shards_folder.ancestors().nth(2) {
                sync_directory(build_folder)?;
            }
            journal.append(&lines)?;
            journal.sync()?;
            self.sealed_shards.fetch_add(line_count, Ordering::AcqRel);
        }
        Ok(())
    }
}
