"""What knows nothing of studies: files, words, quantities, and how far some work is."""
