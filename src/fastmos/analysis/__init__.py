"""What a trained head does: the rank of its log-probability matrix."""

from fastmos.analysis.rank import Rank, log_prob_rank

__all__ = ["Rank", "log_prob_rank"]
