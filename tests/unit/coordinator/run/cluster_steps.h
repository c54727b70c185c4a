// What tests of the run controller let a fake cluster do.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/unit/coordinator/run/fake_cluster.h"

namespace gimbal::coordinator {

// All workers have joined and their stages run.
void Start(FakeCluster& cluster, int workers);
// Every stage makes `count` updates, or as many as it may.
void Train(FakeCluster& cluster, int count);
// Up to update 12, with the checkpoint of update 10 committed.
void TrainToTheFirstCheckpoint(FakeCluster& cluster);
// Every stage makes `count` updates and the copies reach the backups.
void TrainAndKeep(FakeCluster& cluster, int count);
// The rows of the whole run are there and are the right ones.
void ExpectAllRows(const FakeCluster& cluster);

// Lets the run come to its end, which must be that of an undisturbed one.
void FinishAndExpectAllRows(FakeCluster& cluster);

// Time passes, and these workers are heard of.
void Wait(FakeCluster& cluster, int seconds,
          const std::vector<int64_t>& workers);

// Four stages on four workers, a snapshot in memory every four updates, and no
// checkpoint on disk but the last.
RunSetup KeepingSetup();

// Three stages on three workers, which may shrink after ten seconds.
RunSetup ShrinkingSetup(int min_workers);

}  // namespace gimbal::coordinator
