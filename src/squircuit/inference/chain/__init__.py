"""The chain rule p(x) = ∏_i p(x_i | x_<i): one conditional after the other, each in O(log D) layers."""
