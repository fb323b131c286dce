"""All answers by the commands that give them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from splitbrain.cluster.classicoperators import SeenClassicQueue, SeenConversions
from splitbrain.cluster.client import FeatureFlag, NodeStatus, SeenNodes, WrittenState
from splitbrain.cluster.queueoperators import SeenPolicy, SeenQueue, SeenStatus, SeenStream
from splitbrain.harness.cli.answers import clusters, runs, stores
from splitbrain.results.comparison import Comparison
from splitbrain.results.nightcomparison import NightComparison
from splitbrain.results.nights import Night


class Answer(NamedTuple):
    """An answer.

    Attributes:
        command: that gives it, without `splitbrain`.
        shape: its type.
        format: the version of that.
        when: in which case, where a command has several; "" where it has one.
        lines: whether it is one of several lines.
        about: what it is, where its type does not say so.
    """

    command: str
    shape: Any
    format: int = 1
    when: str = ""
    lines: bool = False
    about: str = ""

    @property
    def name(self) -> str:
        """The name of its schema."""
        return "-".join([*self.command.split(), *self.when.replace(":", "").split()[:1]])


ANSWERS: Final = (
    Answer("run", runs.RunAnswer),
    Answer("replay", runs.ReplayAnswer, when="simulated"),
    Answer("replay", runs.PlannedReplayAnswer, when="real nodes"),
    Answer("shrink", runs.ShrinkAnswer),
    Answer("hunt", runs.HuntAnswer),
    Answer("nightly", Night),
    Answer("check", list[runs.CheckedFile]),
    Answer("analyze", runs.AnalyzedRun, 2, when="run: a line for each", lines=True),
    Answer("analyze", runs.AnalyzedSums, 2, when="sums: the last line", lines=True),
    Answer("report", stores.Pages, about="The pages that were written."),
    Answer("serve", stores.ServeAnswer),
    Answer("compare", Comparison),
    Answer("compare", NightComparison, when="nights: two of them"),
    Answer("push", list[stores.PushedRun]),
    Answer("pull", stores.Folders, about="The folders of the runs and nights, which are here now."),
    Answer("prune", stores.PruneAnswer),
    Answer("compact", stores.CompactAnswer),
    Answer("pack", stores.PackAnswer),
    Answer("clean", stores.CleanAnswer),
    Answer("list", stores.Listed, about="By kind of part, each name with a line; models with more."),
    Answer("doctor", stores.DoctorAnswer),
    Answer("images list", stores.ImagesAnswer),
    Answer("cluster status", list[clusters.StatusRow]),
    Answer("cluster log", clusters.LogAnswer),
    Answer("cluster state", clusters.StateAnswer),
    Answer("cluster ctl status", NodeStatus),
    Answer("cluster ctl list", SeenNodes),
    Answer("cluster ctl snapshot", WrittenState),
    Answer("cluster ctl checkpoint", WrittenState),
    Answer("cluster ctl list_feature_flags", list[FeatureFlag]),
    Answer("cluster ctl enable_feature_flag", clusters.FlagEnabledAnswer),
    Answer("cluster ctl migrate", clusters.StoreAnswer),
    Answer("cluster ctl rollback", clusters.StoreAnswer),
    Answer("cluster ctl cluster_status", clusters.ClusterStatusAnswer),
    Answer("cluster ctl transfer", clusters.TransferAnswer),
    Answer("cluster ctl queues", list[SeenQueue]),
    Answer("cluster ctl declare_queue", clusters.DeclaredQueueAnswer),
    Answer("cluster ctl queue_status", SeenStatus),
    Answer("cluster ctl purge_queue", clusters.PurgeAnswer),
    Answer("cluster ctl delete_queue", clusters.DeletedQueueAnswer),
    Answer("cluster ctl grow", clusters.MembersOfQueueAnswer),
    Answer("cluster ctl shrink", clusters.MembersOfQueueAnswer),
    Answer("cluster ctl streams", list[SeenStream]),
    Answer("cluster ctl add_stream", clusters.CopiesOfStreamAnswer),
    Answer("cluster ctl delete_stream", clusters.CopiesOfStreamAnswer),
    Answer("cluster ctl add_replica", clusters.CopiesOfStreamAnswer),
    Answer("cluster ctl delete_replica", clusters.CopiesOfStreamAnswer),
    Answer("cluster ctl add_super_stream", clusters.SuperStreamAnswer),
    Answer("cluster ctl delete_super_stream", clusters.SuperStreamAnswer),
    Answer("cluster ctl classic_queues", list[SeenClassicQueue]),
    Answer("cluster ctl convert_queue", clusters.ConvertAnswer),
    Answer("cluster ctl set_delivery_limit", clusters.LimitAnswer),
    Answer("cluster ctl alarms", list[SeenConversions]),
    Answer("cluster ctl set_alarm", SeenConversions),
    Answer("cluster ctl clear_alarm", SeenConversions),
    Answer("cluster ctl enable_transformation", clusters.EnableAnswer),
    Answer("cluster ctl drain", clusters.DrainAnswer),
    Answer("cluster ctl revive", clusters.DrainAnswer),
    Answer("cluster ctl list_drained", clusters.DrainedAnswer),
    Answer("cluster ctl set_target", clusters.TargetAnswer),
    Answer("cluster ctl list_policies", list[SeenPolicy]),
    Answer("cluster ctl set_policy", clusters.PolicyAnswer),
    Answer("cluster ctl clear_policy", clusters.ClearedPolicyAnswer),
    *(
        Answer(f"cluster ctl {each}", clusters.MembersAnswer)
        for each in ("members", "add", "join", "remove", "reset", "force-shrink")
    ),
)
