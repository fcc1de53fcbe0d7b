"""The control protocol of an archive, as values: requests, answers, recording events, and their encoding."""
