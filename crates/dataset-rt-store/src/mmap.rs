//! Read-only maps of files that survive the file being cut short, the places that their bytes are
//! copied to, and what the processor is told about both; the crate's only unsafe code.
//!
//! Reading a mapped page that has no bytes behind it any more (the file was truncated, the disk or
//! the network file system failed) raises SIGBUS, which would end the process. Every [`Map`] is
//! listed in a table; the handler installed here looks the address up, puts a page of zeros in its
//! place and marks the map as failed. The read then goes on, and whoever copied from the map asks
//! [`Map::check`] afterwards and gets an error. Addresses outside the table go to the handlers that
//! were installed before.

#![allow(
    unsafe_code,
    reason = "memory maps, a signal handler and cache hints; each block states its invariant"
)]

use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use memmap2::{Advice, Mmap, MmapOptions};

use crate::error::StoreError;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use crate::long_copy;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use crate::record::{Destination, Part};
#[cfg(all(target_arch = "x86_64", not(miri)))]
use crate::xxh3;

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

/// Bytes of a cache line, the unit in which the processor moves memory.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) const LINE_BYTES: usize = 64;

/// Asks the processor to bring values into its cache that are going to be read soon.
///
/// Records lie anywhere in a map, so the processor cannot guess where the next one is.
#[inline]
pub(crate) fn prefetch<T>(values: &[T]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for line in (0..size_of_val(values)).step_by(LINE_BYTES) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the address lies in a live slice, and a prefetch reads no value and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(values.as_ptr().byte_add(line).cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = values;
}

/// The bytes of a line, at any address.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) type Row = [u8; LINE_BYTES];

/// One cache line of a destination.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[repr(C, align(64))]
pub(crate) struct Line(Row);

/// Bytes that are to be written; they need not have a value before.
///
/// Nothing can be read through a place, and only bytes that have a value are written through it.
#[derive(Debug)]
pub struct Unwritten<'a>(&'a mut [MaybeUninit<u8>]);

/// Says that all bytes of a place have been written.
#[derive(Debug)]
pub struct Written(());

impl Written {
    /// To be said by whoever wrote them, or had them written.
    pub(crate) fn completely() -> Self {
        Self(())
    }
}

impl<'a> From<&'a mut [u8]> for Unwritten<'a> {
    fn from(bytes: &'a mut [u8]) -> Self {
        let (length, bytes) = (bytes.len(), bytes.as_mut_ptr());
        // SAFETY: the same memory for as long. Every byte has a value, and as a place is only ever
        // written with bytes that have one, every byte still has one afterwards.
        Self(unsafe { std::slice::from_raw_parts_mut(bytes.cast(), length) })
    }
}

impl<'a> From<&'a mut [MaybeUninit<u8>]> for Unwritten<'a> {
    fn from(bytes: &'a mut [MaybeUninit<u8>]) -> Self {
        Self(bytes)
    }
}

impl Unwritten<'_> {
    /// How many bytes there are to write.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Says whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes all of them, as many as these.
    #[inline]
    pub fn fill(mut self, bytes: &[u8]) -> Written {
        assert_eq!(self.len(), bytes.len(), "both sides of a copy");
        self.write(0, bytes);
        Written::completely()
    }

    /// How many bytes after `start` a cache line begins.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    pub(crate) fn bytes_to_line(&self, start: usize) -> usize {
        self.0[start..].as_ptr().align_offset(LINE_BYTES)
    }

    /// Writes bytes that are read again soon.
    #[inline]
    pub(crate) fn write(&mut self, start: usize, bytes: &[u8]) {
        let place = &mut self.0[start..start + bytes.len()];
        // SAFETY: both sides have this length, and a place is borrowed for itself alone.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), place.as_mut_ptr().cast(), bytes.len()) };
    }

    /// So many times the bytes of a line, at any address.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    pub(crate) fn rows(&mut self, start: usize, count: usize) -> &mut [MaybeUninit<Row>] {
        let place = &mut self.0[start..start + count * LINE_BYTES];
        // SAFETY: arrays of bytes lie at any address, so many of them have this length, and whoever
        // gets them can only write values.
        unsafe { std::slice::from_raw_parts_mut(place.as_mut_ptr().cast(), count) }
    }

    /// So many lines; where there are any, one must begin at `start`.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    pub(crate) fn lines(&mut self, start: usize, count: usize) -> &mut [MaybeUninit<Line>] {
        if count == 0 {
            return &mut [];
        }
        assert_eq!(self.bytes_to_line(start), 0, "a line begins here");
        let place = &mut self.0[start..start + count * LINE_BYTES];
        // SAFETY: the address was checked, so many lines have this length, and whoever gets them
        // can only write values.
        unsafe { std::slice::from_raw_parts_mut(place.as_mut_ptr().cast(), count) }
    }
}

/// Writes one line past the caches of the processor: a destination that is larger than they are need
/// not be read into them first, which saves a third of the traffic to memory.
///
/// Such stores are not ordered with others until [`order_streams`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn stream_line(line: &mut MaybeUninit<Line>, values: [std::arch::x86_64::__m256i; 2]) {
    let to: *mut std::arch::x86_64::__m256i = line.as_mut_ptr().cast();
    // SAFETY: a line has room for two vectors and begins at a multiple of 64.
    unsafe {
        std::arch::x86_64::_mm256_stream_si256(to, values[0]);
        std::arch::x86_64::_mm256_stream_si256(to.add(1), values[1]);
    }
}

/// Orders lines that went past the caches before all that is written from now on.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) fn order_streams() {
    // SAFETY: a fence has no preconditions; SSE is part of x86-64.
    unsafe { std::arch::x86_64::_mm_sfence() };
}

/// The proof that the processor has AVX2, and the way to functions that need it.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx2(());

#[cfg(all(target_arch = "x86_64", not(miri)))]
impl Avx2 {
    #[inline]
    pub(crate) fn detect() -> Option<Self> {
        std::arch::is_x86_feature_detected!("avx2").then_some(Self(()))
    }

    /// See [`xxh3::hash`].
    #[inline]
    pub(crate) fn hash(self, seed: u64, input: &[u8]) -> u64 {
        // SAFETY: the processor has AVX2.
        unsafe { xxh3::hash(seed, input) }
    }

    /// See [`long_copy::copy_blocks`].
    #[inline]
    pub(crate) fn copy_blocks(
        self,
        seed: Option<u64>,
        payload: &[u8],
        parts: &mut [Part<'_>],
        destination: Destination,
    ) -> Option<u64> {
        // SAFETY: the processor has AVX2.
        unsafe { long_copy::copy_blocks(seed, payload, parts, destination) }
    }
}

/// One mapped address range, as the signal handler sees it. A slot is never freed, only reused.
#[derive(Debug)]
struct GuardSlot {
    taken: AtomicBool,
    /// Odd while the range below is that of a map. Every change counts it up, so that the handler
    /// never takes the start of one map with the length of another.
    version: AtomicUsize,
    start: AtomicUsize,
    length: AtomicUsize,
    failed: AtomicBool,
    next: AtomicPtr<GuardSlot>,
}

static SLOTS: AtomicPtr<GuardSlot> = AtomicPtr::new(ptr::null_mut());

impl GuardSlot {
    fn acquire(start: usize, length: usize) -> &'static Self {
        let slot = Self::free_slot().unwrap_or_else(Self::new_slot);
        slot.failed.store(false, Ordering::SeqCst);
        slot.start.store(start, Ordering::SeqCst);
        slot.length.store(length, Ordering::SeqCst);
        slot.version.fetch_add(1, Ordering::SeqCst);
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
            version: AtomicUsize::new(0),
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
        self.version.fetch_add(1, Ordering::SeqCst);
        self.taken.store(false, Ordering::Release);
    }

    fn contains(&self, address: usize) -> bool {
        let version = self.version.load(Ordering::SeqCst);
        let start = self.start.load(Ordering::SeqCst);
        let length = self.length.load(Ordering::SeqCst);
        // A slot that changes meanwhile is not the one: whoever reads a map keeps it open.
        version % 2 == 1
            && address.wrapping_sub(start) < length
            && self.version.load(Ordering::SeqCst) == version
    }
}

/// The actions that were in force before ours, the latest first, each of them once. A list that is
/// replaced is leaked on purpose: the handler may be reading it.
static PREVIOUS: AtomicPtr<Vec<libc::sigaction>> = AtomicPtr::new(ptr::null_mut());
static PAGE_BYTES: AtomicUsize = AtomicUsize::new(4096);

type ActionHandler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

/// Installs the handler unless it is in force; called for every map, since other libraries
/// (a PyTorch loading worker, for one) may put a handler of their own in its place.
///
/// No lock is taken, as a child that is forked meanwhile would wait for it for ever.
fn install_handler() {
    let Some(current) = exchange_action(None) else {
        return;
    };
    if is_ours(&current) {
        return;
    }
    // SAFETY: sysconf has no preconditions.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    PAGE_BYTES.store(
        usize::try_from(page_bytes).unwrap_or(4096),
        Ordering::Release,
    );
    // First this, because the handler may run as soon as it is installed.
    remember(current);
    let handler: ActionHandler = on_bus_error;
    // SAFETY: all-zero bytes are a valid sigaction: default handler, no flags, empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as usize;
    // A handler that is passed a fault may pass it back by raising the signal: with SA_NODEFER it
    // arrives at once, where `Passage` sees that it is the same one.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
    if let Some(replaced) = exchange_action(Some(&action))
        && !is_ours(&replaced)
    {
        remember(replaced);
    }
}

fn is_ours(action: &libc::sigaction) -> bool {
    let handler: ActionHandler = on_bus_error;
    action.sa_sigaction == handler as usize
}

/// Gives the action in force, and puts another one in its place if there is one.
fn exchange_action(new: Option<&libc::sigaction>) -> Option<libc::sigaction> {
    let mut old = MaybeUninit::<libc::sigaction>::uninit();
    let new = new.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: `new` is null, which changes nothing, or an initialised action whose handler calls
    // only what is safe in a signal handler; `old` is valid for writes.
    let result = unsafe { libc::sigaction(libc::SIGBUS, new, old.as_mut_ptr()) };
    // SAFETY: a call that succeeds has filled it in.
    (result == 0).then(|| unsafe { old.assume_init() })
}

/// Puts an action in front of those that are known, once.
fn remember(action: libc::sigaction) {
    let is_same = |known: &libc::sigaction| known.sa_sigaction == action.sa_sigaction;
    let mut known = PREVIOUS.load(Ordering::Acquire);
    loop {
        let earlier = actions(known);
        if earlier.first().is_some_and(is_same) {
            return;
        }
        let mut list = vec![action];
        list.extend(earlier.iter().filter(|known| !is_same(known)));
        let list = ptr::from_mut(Box::leak(Box::new(list)));
        match PREVIOUS.compare_exchange(known, list, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return,
            Err(current) => known = current,
        }
    }
}

fn actions(list: *const Vec<libc::sigaction>) -> &'static [libc::sigaction] {
    // SAFETY: every list in `PREVIOUS` comes from `Box::leak` in `remember` and is neither changed
    // nor freed, so it is null or valid for the rest of the process.
    unsafe { list.as_ref() }.map_or(&[], Vec::as_slice)
}

extern "C" fn on_bus_error(
    signal: libc::c_int,
    information: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel, or a handler that passes the signal back, gives a valid siginfo.
    let (code, address) = unsafe { ((*information).si_code, (*information).si_addr() as usize) };
    // Otherwise a process sent the signal, and the address means nothing.
    let is_fault = code > 0;
    if is_fault && let Some(slot) = GuardSlot::all().find(|slot| slot.contains(address)) {
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
    let passage = Passage::begin();
    let previous = actions(PREVIOUS.load(Ordering::Acquire)).get(passage.depth);
    match previous {
        Some(action) if action.sa_sigaction == libc::SIG_IGN && !is_fault => {}
        Some(action) if ![libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction) => {
            call(action, signal, information, context);
        }
        _ => end_by_default(signal, is_fault),
    }
    passage.end();
}

fn call(
    action: &libc::sigaction,
    signal: libc::c_int,
    information: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
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

/// Lets the signal end the process, as it would have without us.
fn end_by_default(signal: libc::c_int, is_fault: bool) {
    // SAFETY: a zeroed action is the default one, and both calls are safe in a signal handler.
    unsafe {
        let default: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, &raw const default, ptr::null_mut());
        // A faulting read is done again, and ends the process where it stands.
        if !is_fault {
            libc::raise(signal);
        }
    }
}

/// The way of one signal through the handlers that were there before ours.
///
/// One that was installed after ours may pass the signal back to us, and we are in front of it
/// again; what it passes back goes to the next older one. So each sees the signal at most once.
struct Passage {
    slot: Option<&'static PassageSlot>,
    depth: usize,
}

/// A thread with a signal on its way; thread-local storage may allocate, which a signal handler
/// must not.
struct PassageSlot {
    /// Zero while the slot is not in use.
    thread: AtomicUsize,
    /// Where on its stack the passage began.
    frame: AtomicUsize,
    depth: AtomicUsize,
}

/// More threads at once are let through unseen.
static PASSAGES: [PassageSlot; 64] = [const {
    PassageSlot {
        thread: AtomicUsize::new(0),
        frame: AtomicUsize::new(0),
        depth: AtomicUsize::new(0),
    }
}; 64];

impl Passage {
    #[inline(never)]
    fn begin() -> Self {
        // SAFETY: pthread_self has no preconditions.
        let thread = unsafe { libc::pthread_self() } as usize;
        let marker = 0_u8;
        let frame = ptr::from_ref(&marker).addr();
        let own = |slot: &&PassageSlot| slot.thread.load(Ordering::Acquire) == thread;
        if let Some(slot) = PASSAGES.iter().find(own) {
            // Stacks grow down. A passage that began no higher up was left by a jump.
            let is_inside = frame < slot.frame.load(Ordering::Relaxed);
            let depth = if is_inside {
                slot.depth.load(Ordering::Relaxed) + 1
            } else {
                slot.frame.store(frame, Ordering::Relaxed);
                0
            };
            slot.depth.store(depth, Ordering::Relaxed);
            return Self {
                slot: Some(slot),
                depth,
            };
        }
        let slot = PASSAGES.iter().find(|slot| {
            slot.thread
                .compare_exchange(0, thread, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        });
        if let Some(slot) = slot {
            slot.frame.store(frame, Ordering::Relaxed);
            slot.depth.store(0, Ordering::Relaxed);
        }
        Self { slot, depth: 0 }
    }

    fn end(self) {
        match self.slot {
            Some(slot) if self.depth == 0 => slot.thread.store(0, Ordering::Release),
            Some(slot) => slot.depth.store(self.depth - 1, Ordering::Relaxed),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests;
