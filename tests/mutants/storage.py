"""Breaks of stores."""

from __future__ import annotations

from tests.mutants.base import Break

STORAGE = (
    Break("contents are not synced", "disk.py", "    _each(_sync, paths)", "    _each(str, paths)", "test_power_loss.py"),
    Break("names are not synced", "disk.py", "    _each(_sync_names, paths)", "    _each(str, paths)", "test_power_loss.py"),
    Break(
        "folders above are not synced",
        "disk.py",
        "    if synced:\n        sync_folders(map",
        "    if False:\n        sync_folders(map",
        "test_power_loss.py storage/test_local_sync.py",
    ),
    Break(
        "only the folder itself is synced",
        "disk.py",
        "for length in range(len(names) + 1))",
        "for length in [len(names)])",
        "test_power_loss.py storage/test_local_sync.py",
    ),
    Break(
        "a failed sync is no failure",
        "disk.py",
        "        if error.errno not in _NOTHING_TO_SYNC:\n",
        "        if False:\n",
        "storage/test_local_sync.py",
    ),
    Break(
        "commits are written before their content",
        "storage/local.py",
        "                if self._synced:\n                    os.fsync(file.fileno())",
        "                if False:\n                    os.fsync(file.fileno())",
        "test_power_loss.py",
    ),
    Break(
        "a commit's name is not synced",
        "storage/local.py",
        "                with contextlib.suppress(OSError):\n                    sync_folders([str(target.parent)])",
        "                pass",
        "test_power_loss.py",
    ),
    Break(
        "a replaced file's name is not synced",
        "storage/local.py",
        "            if self._synced:\n                sync_folders([str(target.parent)])",
        "",
        "test_power_loss.py storage/test_local_sync.py",
    ),
    Break(
        "a commit replaces another",
        "storage/local.py",
        "                os.link(temporary, target)",
        "                os.replace(temporary, target); os.link(target, temporary)",
        "storage/test_local.py",
    ),
    Break(
        "a failed link that is there failed",
        "storage/local.py",
        "                if not _is_linked(target, temporary):",
        "                if True:",
        "storage/test_local_links.py storage/test_local.py",
    ),
    Break(
        "a link without an answer failed",
        "storage/local.py",
        "    if error.errno not in _UNANSWERED:\n",
        "    if True:\n",
        "storage/test_local_links.py storage/test_local.py",
    ),
    Break(
        "temporary files stay",
        "storage/local.py",
        "            self._path.unlink(missing_ok=True)",
        "            pass",
        "storage/test_local.py",
    ),
    Break(
        "a checksum of Hadoop stays",
        "storage/local.py",
        '            (target.parent / f".{target.name}.crc").unlink(missing_ok=True)\n            if',
        "            if",
        "storage/test_local.py",
    ),
    Break(
        "an object is created over another",
        "storage/object_store.py",
        'data, mode="create", use_multipart=False)\n                return',
        "data, use_multipart=False)\n                return",
        "storage/test_conditional_create.py",
    ),
    Break(
        "another's object is one's own",
        "storage/object_store.py",
        "            if found.bytes().to_bytes() != data:\n",
        "            if False:\n",
        "storage/test_conditional_create.py",
    ),
    Break(
        "a create in doubt has failed",
        "storage/object_store.py",
        "        if in_doubt:\n",
        "        if False:\n",
        "storage/test_conditional_create.py",
    ),
    Break(
        "an answer that broke off is not asked for again",
        "storage/object_store.py",
        "_READS = 3\n",
        "_READS = 1\n",
        "storage/test_lost_answers.py",
    ),
    Break(
        "stores that overwrite are trusted",
        "storage/object_store.py",
        "        except _TAKEN:\n            return True\n",
        "        except _TAKEN:\n            return False\n",
        "storage/test_conditional_create.py",
    ),
    Break(
        "what a killed write leaves of a data file is hidden from VACUUM",
        "storage/local.py",
        "'' if is_data else '.'",
        "'.'",
        "storage/test_local_killed.py",
    ),
)
