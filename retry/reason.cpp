// The fixed names of reasons.
