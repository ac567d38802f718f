"""A page in the browser to ask a model: `squircuit explore`.

A question travels from the page to :mod:`squircuit.explore.app`, which answers nobody but the page
(:mod:`squircuit.explore.guard`), to the one thread that has the model (:mod:`squircuit.explore.worker`), to
a function of :mod:`squircuit.explore.tables`, :mod:`squircuit.explore.images` or
:mod:`squircuit.explore.exhibit`, which asks the model. Only `app`, `guard` and `server` need the packages
of the extra ``explore``.
"""
