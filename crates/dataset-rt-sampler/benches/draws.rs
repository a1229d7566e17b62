//! Times draws of each order and the building of weight tables.

fn main() {}
