// Carries the precompiled header that every LibTorch module shares.
