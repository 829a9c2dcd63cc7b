"""Twenty questions about the running club: ten easy, seven medium, three hard."""

from __future__ import annotations

from functools import partial
from typing import Final

from benchmarks.quality.sql_task import SqlTask

__all__ = ["RUNNING_CLUB"]

_easy = partial(SqlTask, database="running_club", difficulty="easy")
_medium = partial(SqlTask, database="running_club", difficulty="medium")
_hard = partial(SqlTask, database="running_club", difficulty="hard")

RUNNING_CLUB: Final[list[SqlTask]] = [
    _easy(
        name="members_from_ashford",
        question="List the names of the members who live in the town of Ashford.",
        sql="SELECT name FROM members WHERE town = 'Ashford'",
        ordered=False,
    ),
    _easy(
        name="number_of_five_kilometre_races",
        question="How many races have a distance of 5 km?",
        sql="SELECT COUNT(*) FROM races WHERE distance_km = 5",
        ordered=False,
    ),
    _easy(
        name="name_of_the_longest_race",
        question="What is the name of the race with the longest distance?",
        sql="SELECT name FROM races ORDER BY distance_km DESC LIMIT 1",
        ordered=False,
    ),
    _easy(
        name="different_distances",
        question="List the distances of the races in km, shortest first. List each distance only once.",
        sql="SELECT DISTINCT distance_km FROM races ORDER BY distance_km",
        ordered=True,
    ),
    _easy(
        name="names_and_dates_of_races_in_dover",
        question="List the name and the date of each race in the town of Dover.",
        sql="SELECT name, race_date FROM races WHERE town = 'Dover'",
        ordered=False,
    ),
    _easy(
        name="members_born_after_1990",
        question="List the names of the members born after 1990, sorted by their birth year, latest year first.",
        sql="SELECT name FROM members WHERE birth_year > 1990 ORDER BY birth_year DESC",
        ordered=True,
    ),
    _easy(
        name="name_and_birth_year_of_the_youngest_member",
        question="List the name and the birth year of the youngest member.",
        sql="SELECT name, birth_year FROM members ORDER BY birth_year DESC LIMIT 1",
        ordered=False,
    ),
    _easy(
        name="lowest_finish_time_of_one_member",
        question="What is the lowest finish time in minutes of the member with member_id 5?",
        sql="SELECT MIN(finish_minutes) FROM results WHERE member_id = 5",
        ordered=False,
    ),
    _easy(
        name="races_in_2025",
        question="List the names of the races in 2025.",
        sql="SELECT name FROM races WHERE race_date >= '2025-01-01'",
        ordered=False,
    ),
    _easy(
        name="number_of_members_outside_two_towns",
        question="How many members live neither in Ashford nor in Dover?",
        sql="SELECT COUNT(*) FROM members WHERE town NOT IN ('Ashford', 'Dover')",
        ordered=False,
    ),
    _medium(
        name="number_of_members_in_each_town",
        question="For each town, list the town and the number of members who live there.",
        sql="SELECT town, COUNT(*) FROM members GROUP BY town",
        ordered=False,
    ),
    _medium(
        name="finishers_of_one_race",
        question=(
            "List the name of the member and the finish time in minutes for each result of the race with race_id 1, "
            "fastest first."
        ),
        sql=(
            "SELECT members.name, results.finish_minutes FROM results "
            "JOIN members ON results.member_id = members.member_id WHERE results.race_id = 1 "
            "ORDER BY results.finish_minutes"
        ),
        ordered=True,
    ),
    _medium(
        name="fastest_time_of_each_race",
        question="For each race with results, list the name of the race and the lowest finish time in minutes.",
        sql=(
            "SELECT races.name, MIN(results.finish_minutes) FROM races JOIN results ON races.race_id = results.race_id "
            "GROUP BY races.race_id"
        ),
        ordered=False,
    ),
    _medium(
        name="members_who_won_a_race",
        question="List the names of the members who took place 1 in a race. List each name only once.",
        sql="SELECT DISTINCT m.name FROM members m JOIN results r ON m.member_id = r.member_id WHERE r.place = 1",
        ordered=False,
    ),
    _medium(
        name="number_of_results_of_one_member",
        question="How many results does the member Carmen Ortiz have?",
        sql=(
            "SELECT COUNT(*) FROM results AS t1 JOIN members AS t2 ON t1.member_id = t2.member_id "
            "WHERE t2.name = 'Carmen Ortiz'"
        ),
        ordered=False,
    ),
    _medium(
        name="towns_with_at_least_three_races",
        question="List the towns with at least three races.",
        sql="SELECT town FROM races GROUP BY town HAVING COUNT(*) >= 3",
        ordered=False,
    ),
    _medium(
        name="total_distance_of_one_member",
        question="What is the total distance in km of all races in which the member with member_id 3 has a result?",
        sql=(
            "SELECT SUM(races.distance_km) FROM races JOIN results ON races.race_id = results.race_id "
            "WHERE results.member_id = 3"
        ),
        ordered=False,
    ),
    _hard(
        name="races_of_one_member_by_date",
        question="List the names of the races in which Amira Saleh has a result, sorted by the date, latest first.",
        sql=(
            "SELECT races.name FROM races JOIN results ON races.race_id = results.race_id "
            "JOIN members ON results.member_id = members.member_id WHERE members.name = 'Amira Saleh' "
            "ORDER BY races.race_date DESC"
        ),
        ordered=True,
    ),
    _hard(
        name="members_without_a_result",
        question="List the names of the members who have no result.",
        sql="SELECT name FROM members WHERE NOT EXISTS "
        "(SELECT * FROM results WHERE results.member_id = members.member_id)",
        ordered=False,
    ),
    _hard(
        name="half_marathons_below_105_minutes",
        question=(
            "List the name of the member and the finish time in minutes for each result below 105 minutes in a race "
            "with a distance of 21.1 km, fastest first."
        ),
        sql=(
            "SELECT m.name, r2.finish_minutes FROM members m JOIN results r2 ON m.member_id = r2.member_id "
            "JOIN races r1 ON r2.race_id = r1.race_id WHERE r1.distance_km = 21.1 AND r2.finish_minutes < 105 "
            "ORDER BY r2.finish_minutes"
        ),
        ordered=True,
    ),
]
