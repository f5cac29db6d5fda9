"""Tables larger than memory: seconds and memory of streamed fits and imputations as rows grow, and a page of them."""
