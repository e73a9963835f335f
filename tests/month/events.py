"""What happens on which day, and which alerts it must and may cause. Any other alert, and any broken promise, is a failure."""

from dataclasses import dataclass, field
from typing import Callable

from cells import add_a_cell, move_a_tenant
from faults import (bad_object_storage, brokers_away, database_failover, flood, full_builder_disks, full_database_disk, killed_services,
                    silent_database, slow_database)
from operations import back_up, restart, restore, rolling_update, upgrade
from people import people_change_groups, people_join, people_leave
from privacy import delete_tenant, erase_person, leaked_key, limit_retention
from rotation import rotate_secrets
from releases import bad_release, first_releases, fixed_release, late_dsyms, uploads_of_clients

# Their windows are longer than a day of the month, which is a minute, so that they go on once they have begun.
LATE = {f"Unslide{name}{days}" for name in ("ReportsAreLate", "ReportsAreStoredLate") for days in ("", "ForDays")}
LASTING = LATE | {"UnslideApiFails", "UnslideApiFailsForDays", "UnslideStartsAgainAndAgain", "UnslideTransactionsFail", "UnslideObjectsRefused",
                  "UnslideMaintenanceFails"}
STARTS = {"UnslideNotReady", "UnslideCellAway", "UnslideDoesNotAnswer", "UnslideServiceMissing", "UnslideDependencyAway"}
AWAY = {"UnslideDependencyAway"}


@dataclass(frozen=True)
class Event:
    run: Callable
    day: int
    # In the short form, or None.
    short_day: int | None
    must: set[str] = field(default_factory=set)
    may: set[str] = field(default_factory=set)

    def name(self) -> str:
        return self.run.__name__.replace("_", " ")


# With `--upgrade-from` only.
UPGRADE = Event(upgrade, 1, 1, may=STARTS | LASTING)
EVENTS = [
    Event(first_releases, 0, 0, may=STARTS),
    Event(limit_retention, 0, 0),
    Event(people_join, 2, 1),
    Event(add_a_cell, 3, 1, may=STARTS | LASTING),
    Event(bad_release, 4, 1),
    Event(killed_services, 6, 1, must={"UnslideStartsAgainAndAgain"}, may=STARTS | LASTING),
    # Before the backup: docs/cells.md#backups.
    Event(move_a_tenant, 7, 2, may=LASTING),
    Event(late_dsyms, 8, 2),
    Event(silent_database, 9, 2, must=AWAY, may=STARTS | LASTING),
    Event(uploads_of_clients, 10, 2),
    Event(people_change_groups, 11, 2),
    # Before the backup, and after it.
    Event(erase_person, 11, None),
    Event(back_up, 12, 2),
    Event(fixed_release, 12, 3),
    Event(bad_object_storage, 13, 3, must=AWAY, may={"UnslideSymbolsCanNotBeFetched", "UnslideObjectsRefused", "UnslideNotReady"} | LASTING),
    Event(erase_person, 14, 3),
    Event(slow_database, 15, 4, may=AWAY | STARTS | LASTING),
    Event(brokers_away, 16, 3, must=AWAY, may=STARTS | LASTING),
    Event(leaked_key, 17, 3),
    Event(people_leave, 19, 3),
    Event(rotate_secrets, 19, 3, may=STARTS | LASTING),
    Event(flood, 18, 4, may=LASTING | {"UnslideReportsWait", "UnslideInputWaits"}),
    Event(full_builder_disks, 18, 4, may=STARTS | LASTING | {"UnslideJobsStall"}),
    Event(restore, 20, 4, may=STARTS | LASTING),
    Event(database_failover, 21, 4, must=AWAY, may=STARTS | LASTING),
    Event(rolling_update, 22, 5, may=STARTS | LASTING),
    Event(full_database_disk, 23, 5, may=STARTS | LASTING),
    Event(delete_tenant, 24, 5),
    Event(restart, 26, 5, may=STARTS | LASTING),
]
