"""The recurrent model: a cell over windows of observations, with a kernel that runs all windows at once."""
