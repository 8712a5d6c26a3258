"""What torch itself refuses or changes in old idioms: a sweep that is repeated with each version of torch."""
