//! Read-only maps of files that survive the file being cut short; the crate's only unsafe code.
//!
//! Reading a mapped page that has no bytes behind it any more (the file was truncated, the disk or
//! the network file system failed) raises SIGBUS, which would end the process. Every [`Map`] is
//! listed in a table; the handler installed here looks the address up, puts a page of zeros in its
//! place and marks the map as failed. The read then goes on, and whoever copied from the map asks
//! [`Map::check`] afterwards and gets an error. Addresses outside the table go to the handler that
//! was installed before.

#![allow(
    unsafe_code,
    reason = "memory maps and a signal handler; each block states its invariant"
)]

use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use memmap2::{Advice, Mmap, MmapOptions};

use crate::error::StoreError;

/// A whole file, mapped read-only. Cloning is cheap and shares the map.
#[derive(Debug, Clone)]
pub struct Map {
    inner: Arc<MapInner>,
}

#[derive(Debug)]
struct MapInner {
    /// `None` for an empty file, which cannot be mapped.
    map: Option<Mmap>,
    guard: Option<&'static GuardSlot>,
    path: PathBuf,
}

impl Map {
    /// Maps a file and checks that it has the expected length.
    pub fn open(path: &Path, expected_bytes: u64) -> Result<Self, StoreError> {
        let file = File::open(path).map_err(|source| {
            if source.kind() == std::io::ErrorKind::NotFound {
                StoreError::FileMissing {
                    path: path.to_owned(),
                }
            } else {
                StoreError::io("open", path)(source)
            }
        })?;
        let metadata = file
            .metadata()
            .map_err(StoreError::io("read the length of", path))?;
        if metadata.len() != expected_bytes {
            return Err(StoreError::FileLength {
                path: path.to_owned(),
                expected: expected_bytes,
                found: metadata.len(),
            });
        }
        Self::of_file(&file, path)
    }

    /// Maps a file of any length.
    pub fn open_any_length(path: &Path) -> Result<Self, StoreError> {
        let file = File::open(path).map_err(StoreError::io("open", path))?;
        Self::of_file(&file, path)
    }

    fn of_file(file: &File, path: &Path) -> Result<Self, StoreError> {
        let length = file
            .metadata()
            .map_err(StoreError::io("read the length of", path))?
            .len();
        if length == 0 {
            let inner = MapInner {
                map: None,
                guard: None,
                path: path.to_owned(),
            };
            return Ok(Self {
                inner: Arc::new(inner),
            });
        }
        // SAFETY: files of a published cache are never written again, so the slice does not change
        // under its readers. If someone cuts the file short all the same, the SIGBUS handler below
        // turns the lost pages into zeros, and `check` reports it.
        let map = unsafe { MmapOptions::new().map(&file.as_fd()) }
            .map_err(StoreError::io("map", path))?;
        install_handler();
        let guard = GuardSlot::acquire(map.as_ptr() as usize, map.len());
        let inner = MapInner {
            map: Some(map),
            guard: Some(guard),
            path: path.to_owned(),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// The bytes of the file.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.inner.map.as_deref().unwrap_or_default()
    }

    /// The file that was mapped.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Asks the system to begin reading these bytes of the file; it may refuse.
    pub(crate) fn advise(&self, offset: usize, bytes: usize) {
        if let Some(map) = &self.inner.map {
            // A refusal costs nothing but time.
            let _ = map.advise_range(Advice::WillNeed, offset, bytes);
        }
    }

    /// Says whether every read from the map so far gave bytes of the file; call it after copying.
    #[inline]
    pub fn check(&self) -> Result<(), StoreError> {
        match self.inner.guard {
            Some(guard) if guard.failed.load(Ordering::Acquire) => Err(StoreError::FileShrank {
                path: self.inner.path.clone(),
            }),
            _ => Ok(()),
        }
    }
}

impl AsRef<[u8]> for Map {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl Drop for MapInner {
    fn drop(&mut self) {
        // Leave the table before the address range is unmapped and can belong to someone else.
        if let Some(guard) = self.guard.take() {
            guard.release();
        }
    }
}

/// One mapped address range, as the signal handler sees it. A slot is never freed, only reused.
#[derive(Debug)]
struct GuardSlot {
    taken: AtomicBool,
    start: AtomicUsize,
    /// Zero while the slot is not in use.
    length: AtomicUsize,
    failed: AtomicBool,
    next: AtomicPtr<GuardSlot>,
}

static SLOTS: AtomicPtr<GuardSlot> = AtomicPtr::new(ptr::null_mut());

impl GuardSlot {
    fn acquire(start: usize, length: usize) -> &'static Self {
        let slot = Self::free_slot().unwrap_or_else(Self::new_slot);
        slot.failed.store(false, Ordering::Relaxed);
        slot.start.store(start, Ordering::Release);
        slot.length.store(length, Ordering::Release);
        slot
    }

    fn free_slot() -> Option<&'static Self> {
        Self::all().find(|slot| {
            slot.taken
                .compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        })
    }

    fn new_slot() -> &'static Self {
        let slot: &'static Self = Box::leak(Box::new(Self {
            taken: AtomicBool::new(true),
            start: AtomicUsize::new(0),
            length: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
            next: AtomicPtr::new(ptr::null_mut()),
        }));
        let address = ptr::from_ref(slot).cast_mut();
        let mut head = SLOTS.load(Ordering::Acquire);
        loop {
            slot.next.store(head, Ordering::Release);
            match SLOTS.compare_exchange(head, address, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return slot,
                Err(current) => head = current,
            }
        }
    }

    fn all() -> impl Iterator<Item = &'static Self> {
        let mut next = SLOTS.load(Ordering::Acquire);
        std::iter::from_fn(move || {
            // SAFETY: every pointer in the list comes from `Box::leak` in `new_slot` and is never
            // freed, so it is null or valid for the rest of the process.
            let slot = unsafe { next.as_ref() }?;
            next = slot.next.load(Ordering::Acquire);
            Some(slot)
        })
    }

    fn release(&self) {
        self.length.store(0, Ordering::Release);
        self.taken.store(false, Ordering::Release);
    }

    fn contains(&self, address: usize) -> bool {
        let length = self.length.load(Ordering::Acquire);
        let start = self.start.load(Ordering::Acquire);
        address.wrapping_sub(start) < length
    }
}

/// The action that was in force before ours; set under `INSTALL` and read by the handler.
static PREVIOUS: AtomicPtr<libc::sigaction> = AtomicPtr::new(ptr::null_mut());
static PAGE_BYTES: AtomicUsize = AtomicUsize::new(4096);
static INSTALL: Mutex<()> = Mutex::new(());

type ActionHandler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

/// Installs the handler unless it is in force; called for every map, since other libraries
/// (a PyTorch loading worker, for one) may put a handler of their own in its place.
fn install_handler() {
    let _lock = INSTALL.lock().unwrap_or_else(PoisonError::into_inner);
    let handler: ActionHandler = on_bus_error;
    let mut current = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: a null new action only reads the current one into `current`, which is valid for writes.
    let read = unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), current.as_mut_ptr()) };
    if read != 0 {
        return;
    }
    // SAFETY: the call above succeeded and filled it in.
    let current = unsafe { current.assume_init() };
    if current.sa_sigaction == handler as usize {
        return;
    }
    // SAFETY: sysconf has no preconditions.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    PAGE_BYTES.store(
        usize::try_from(page_bytes).unwrap_or(4096),
        Ordering::Release,
    );
    // The old action is leaked on purpose: the handler may read it at any time.
    PREVIOUS.store(Box::leak(Box::new(current)), Ordering::Release);
    // SAFETY: all-zero bytes are a valid sigaction: default handler, no flags, empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the action is fully initialised, and `on_bus_error` calls only what is safe in a
    // signal handler: atomics, mmap and sigaction.
    unsafe { libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) };
}

extern "C" fn on_bus_error(
    signal: libc::c_int,
    information: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel passes a valid siginfo to a handler installed with SA_SIGINFO, and si_addr
    // is set for SIGBUS.
    let address = unsafe { (*information).si_addr() } as usize;
    if let Some(slot) = GuardSlot::all().find(|slot| slot.contains(address)) {
        let page_bytes = PAGE_BYTES.load(Ordering::Acquire);
        let page = address & !(page_bytes - 1);
        // SAFETY: the page lies in a range that a live Map owns (its slot is released before the
        // range is unmapped), so replacing it with zeros touches nobody else's memory.
        let replaced = unsafe {
            libc::mmap(
                page as *mut libc::c_void,
                page_bytes,
                libc::PROT_READ,
                libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if replaced != libc::MAP_FAILED {
            slot.failed.store(true, Ordering::Release);
            return;
        }
    }
    pass_on(signal, information, context);
}

/// Gives a fault that is not ours to the handler that was installed before.
fn pass_on(signal: libc::c_int, information: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: null, or leaked by `install_handler` and valid for ever.
    let previous = unsafe { PREVIOUS.load(Ordering::Acquire).as_ref() };
    match previous {
        Some(action)
            if action.sa_sigaction != libc::SIG_DFL && action.sa_sigaction != libc::SIG_IGN =>
        {
            if action.sa_flags & libc::SA_SIGINFO != 0 {
                // SAFETY: SA_SIGINFO says that the stored address is a three-argument handler.
                let handler: ActionHandler = unsafe { std::mem::transmute(action.sa_sigaction) };
                handler(signal, information, context);
            } else {
                // SAFETY: without SA_SIGINFO the stored address is a one-argument handler.
                let handler: extern "C" fn(libc::c_int) =
                    unsafe { std::mem::transmute(action.sa_sigaction) };
                handler(signal);
            }
        }
        _ => {
            // SAFETY: a zeroed action is the default one; the faulting read then ends the process,
            // as it would have without us.
            unsafe {
                let default: libc::sigaction = std::mem::zeroed();
                libc::sigaction(signal, &raw const default, ptr::null_mut());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_a_file_that_was_cut_short_gives_zeros_and_an_error() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("file");
        std::fs::write(&path, vec![7; 100_000]).expect("a file");
        let map = Map::open(&path, 100_000).expect("a map");
        assert_eq!(map.bytes()[99_999], 7);
        map.check().expect("a whole file");
        File::options()
            .write(true)
            .open(&path)
            .expect("open")
            .set_len(10)
            .expect("cut");
        assert_eq!(map.bytes().to_vec()[99_999], 0);
        assert!(matches!(map.check(), Err(StoreError::FileShrank { .. })));
    }

    #[test]
    fn an_empty_file_maps_to_no_bytes() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("empty");
        std::fs::write(&path, []).expect("a file");
        assert!(Map::open(&path, 0).expect("a map").bytes().is_empty());
    }
}
