"""The asv suite: thin adapters that let asv time the cases of ``dataset_rt_bench`` over history."""
