"""The offer codes of stores that customers have redeemed: how often, when and by whom.

Begin with `queries.sql`. It owns no table: codes are in `chart_periods`, which every change of a purchase writes. Which
codes there are only the stores know.
"""
