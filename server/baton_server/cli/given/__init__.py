"""What people give: agents in files, functions in modules, names, results, a yes or no."""
