"""What a program says of its agents: what they are told, what they may call, whom they hand over to, what checks
them. Each definition writes itself as the contract has it.
"""
