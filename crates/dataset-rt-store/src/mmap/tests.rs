//! Maps of files that are cut short, faults that are not ours, and copies past the caches.

use std::process::Command;

use super::*;

#[test]
fn reading_a_file_that_was_cut_short_gives_zeros_and_an_error() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (path, map) = mapped_file(folder.path());
    assert_eq!(map.bytes()[99_999], 7);
    map.check().expect("a whole file");
    cut(&path);
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

#[test]
fn a_slot_is_that_of_its_map_only_while_it_is_taken() {
    let slot = GuardSlot::acquire(1 << 40, 10);
    assert!(slot.contains((1 << 40) + 9));
    assert!(!slot.contains((1 << 40) + 10));
    slot.release();
    assert!(!slot.contains(1 << 40));
}

/// A process of its own, in which the handlers below are installed and end it.
const CHILD: &str = "DATASET_RT_TEST_OF_BUS_ERRORS";
static TIMES_PASSED_BACK: AtomicUsize = AtomicUsize::new(0);
static BEFORE_PASSING_BACK: AtomicPtr<libc::sigaction> = AtomicPtr::new(ptr::null_mut());

#[test]
fn a_fault_that_is_not_ours_comes_to_every_handler_once_however_they_pass_it_on() {
    for manner in ["call", "raise"] {
        let status = if std::env::var_os(CHILD).is_some_and(|value| value == manner) {
            raise_a_foreign_fault(manner);
            unreachable!("the oldest handler ends the process");
        } else if std::env::var_os(CHILD).is_some() {
            continue;
        } else {
            Command::new(std::env::current_exe().expect("this program"))
                .args(["--exact", "--nocapture"])
                .arg("mmap::tests::a_fault_that_is_not_ours_comes_to_every_handler_once_however_they_pass_it_on")
                .env(CHILD, manner)
                .status()
                .expect("a process")
        };
        assert_eq!(status.code(), Some(51), "{manner}: {status}");
    }
}

fn raise_a_foreign_fault(manner: &str) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    install(end_with_count as *const () as usize);
    let _first = mapped_file(folder.path());
    // Each time it is in front of ours, and keeps ours as the one that was there before; then
    // the next map puts ours in front again.
    for _ in 0..2 {
        let before = install(match manner {
            "call" => pass_back_by_call as *const () as usize,
            _ => pass_back_by_raise as *const () as usize,
        });
        BEFORE_PASSING_BACK.store(Box::leak(Box::new(before)), Ordering::Release);
        let _next = mapped_file(folder.path());
    }
    let (path, _map) = mapped_file(folder.path());
    let file = File::open(&path).expect("a file");
    // SAFETY: nothing else reads it, and that it is cut is what the test is about.
    let foreign = unsafe { MmapOptions::new().map(&file) }.expect("a map of somebody else");
    cut(&path);
    std::hint::black_box(foreign.to_vec());
}

fn install(handler: usize) -> libc::sigaction {
    // SAFETY: all-zero bytes are a valid sigaction.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
    exchange_action(Some(&action)).expect("an action before")
}

extern "C" fn pass_back_by_call(
    signal: libc::c_int,
    information: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let before = before_passing_back();
    call(&before, signal, information, context);
}

extern "C" fn pass_back_by_raise(
    signal: libc::c_int,
    _information: *mut libc::siginfo_t,
    _context: *mut libc::c_void,
) {
    exchange_action(Some(&before_passing_back()));
    // SAFETY: raise has no preconditions.
    unsafe { libc::raise(signal) };
}

fn before_passing_back() -> libc::sigaction {
    if TIMES_PASSED_BACK.fetch_add(1, Ordering::SeqCst) == 10 {
        // SAFETY: _exit has no preconditions.
        unsafe { libc::_exit(110) };
    }
    // SAFETY: set before the fault, and leaked.
    unsafe { *BEFORE_PASSING_BACK.load(Ordering::Acquire) }
}

extern "C" fn end_with_count(
    _signal: libc::c_int,
    _information: *mut libc::siginfo_t,
    _context: *mut libc::c_void,
) {
    let count = TIMES_PASSED_BACK.load(Ordering::SeqCst);
    // SAFETY: _exit has no preconditions.
    unsafe { libc::_exit(50 + libc::c_int::try_from(count).unwrap_or(libc::c_int::MAX)) };
}

fn mapped_file(folder: &Path) -> (PathBuf, Map) {
    let path = folder.join("file");
    std::fs::write(&path, vec![7; 100_000]).expect("a file");
    let map = Map::open(&path, 100_000).expect("a map");
    (path, map)
}

fn cut(path: &Path) {
    let file = File::options().write(true).open(path).expect("a file");
    file.set_len(10).expect("a file that can be cut");
}
