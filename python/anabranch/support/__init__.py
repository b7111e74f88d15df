"""What is independent of studies: files, words, quantities, and progress."""
