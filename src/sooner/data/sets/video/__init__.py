"""UCF101 and HMDB51: from a folder of videos and the official split files to series of features.

`extract` computes the features of every frame once, with a backbone; `load` reads them as clips.
"""

from sooner.data.sets.video.clips import Clips as Clips
from sooner.data.sets.video.clips import VideoSplits as VideoSplits
from sooner.data.sets.video.clips import clip_indices as clip_indices
from sooner.data.sets.video.clips import extract as extract
from sooner.data.sets.video.clips import load as load
from sooner.data.sets.video.features import Features as Features
from sooner.data.sets.video.frames import VIEWS as VIEWS
from sooner.data.sets.video.frames import View as View
from sooner.data.sets.video.frames import read_frames as read_frames
from sooner.data.sets.video.frames import view_named as view_named
from sooner.data.sets.video.lists import VIDEO_SETS as VIDEO_SETS
from sooner.data.sets.video.lists import SplitLists as SplitLists
from sooner.data.sets.video.lists import Video as Video
from sooner.data.sets.video.lists import split_lists as split_lists
