"""The fused CPU forms of the ops, compiled by Numba for float32; one file per op.

Each file holds kernels and the autograd functions around them, which :mod:`gsat.ops.reference`
declares as forms of its ops: arguments, types and meaning are those of the op. The machinery they
share: ``compile`` (decorators, machine code on disk), ``parallel`` and ``thread_pool`` (work split
over threads), ``buffers`` (memory), ``matmul`` (matrix products inside kernels), ``random`` (random
bits).

Conventions of all kernels:

* ``kernel(first, last, ptr, ...)`` processes the segments ``first`` to ``last - 1``. Segment ``i``
  holds the rows ``ptr[i]`` to ``ptr[i + 1] - 1`` of its arrays. A segment is a graph (``ptr`` is
  ``node_ptr`` or ``edge_ptr``), a chunk of :data:`~gsat.ops.numba.parallel.CHUNK` rows, or a block
  of rows or graphs (:func:`~gsat.ops.numba.matmul.block_ptr`). Each thread gets a range of whole
  segments, so that no two threads write to the same place.
* Index names: ``g`` graph, ``v`` destination node, ``u`` source node, ``e`` edge, ``i`` row,
  ``j`` channel, ``c`` chunk, ``b`` block. ``dst_ptr[v]`` to ``dst_ptr[v + 1] - 1`` are the edges
  into node ``v``; ``by_src[src_ptr[u]]`` to ``by_src[src_ptr[u + 1] - 1]`` those out of ``u``.
* Dropout takes ``row_id`` (which names each row for the hash), ``key``, ``threshold`` (random bits
  below it mean "drop") and ``keep_scale`` = 1 / (1 - drop).
* Results and scratch memory are allocated by the caller and passed in. A gradient array of length
  0 says that this gradient is not needed.
* Sums over all rows are taken per segment and then over segments. The segments follow from the
  data alone, so no result depends on the number of threads.
"""
