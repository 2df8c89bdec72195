"""What a model may change when it is called: found, put back, or named."""
