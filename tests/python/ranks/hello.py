"""Every rank runs this: what `cohort run`, torchrun, mpirun, srun and horovodrun start alike."""

import numpy as np

import cohort as hvd

hvd.init()
rank, size = hvd.rank(), hvd.size()
total = hvd.allreduce(np.full(1000, float(rank)), op=hvd.Sum)
names = hvd.allgather_object((rank, hvd.local_rank(), hvd.local_size()))
for ranks in ([0], [size - 1], None):  # other worlds: of one rank, the others are alone; of all
    hvd.shutdown()
    hvd.init(comm=ranks)
    assert (hvd.rank(), hvd.size()) == ((0, 1) if ranks else (rank, size)), (ranks, hvd.rank(), hvd.size())
    assert hvd.allreduce(np.ones(2), op=hvd.Sum).tolist() == [hvd.size()] * 2
if hvd.rank() == 0:
    print(f"size {hvd.size()} sum {total[0]:g} ranks {names}", flush=True)
