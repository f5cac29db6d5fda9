"""The networks, the likelihoods and the model they make up."""
