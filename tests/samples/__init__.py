"""Programs in the shapes of the Agents SDK's page on running agents, with nothing changed but where they import from.

Each file stands for one sample of that page: the same classes, the same arguments, the same course; words of its own.
"""
