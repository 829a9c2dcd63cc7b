"""Twenty questions about the library: ten easy, six medium, four hard."""

from __future__ import annotations

from functools import partial
from typing import Final

from benchmarks.quality.sql_task import SqlTask

__all__ = ["LIBRARY"]

_easy = partial(SqlTask, database="library", difficulty="easy")
_medium = partial(SqlTask, database="library", difficulty="medium")
_hard = partial(SqlTask, database="library", difficulty="hard")

LIBRARY: Final[list[SqlTask]] = [
    _easy(
        name="titles_of_crime_books",
        question="List the titles of the books in the genre 'crime'.",
        sql="SELECT title FROM books WHERE genre = 'crime'",
        ordered=False,
    ),
    _easy(
        name="number_of_books_before_2000",
        question="How many books were published before the year 2000?",
        sql="SELECT COUNT(*) FROM books WHERE published_year < 2000",
        ordered=False,
    ),
    _easy(
        name="name_of_the_oldest_author",
        question="What is the name of the author with the earliest birth year?",
        sql="SELECT name FROM authors ORDER BY birth_year LIMIT 1",
        ordered=False,
    ),
    _easy(
        name="different_genres",
        question="List the genres of the books. List each genre only once.",
        sql="SELECT DISTINCT genre FROM books",
        ordered=False,
    ),
    _easy(
        name="books_with_more_than_400_pages",
        question="List the title and the number of pages of each book with more than 400 pages.",
        sql="SELECT title, pages FROM books WHERE pages > 400",
        ordered=False,
    ),
    _easy(
        name="authors_from_sweden",
        question="List the names of the authors from Sweden.",
        sql="SELECT name FROM authors WHERE country = 'Sweden'",
        ordered=False,
    ),
    _easy(
        name="library_members_who_joined_in_2022",
        question="List the names of the members who joined between 2022-01-01 and 2022-12-31.",
        sql="SELECT name FROM members WHERE joined_on BETWEEN '2022-01-01' AND '2022-12-31'",
        ordered=False,
    ),
    _easy(
        name="number_of_loans_not_yet_returned",
        question="How many loans are not yet returned?",
        sql="SELECT COUNT(*) FROM loans WHERE returned_on IS NULL",
        ordered=False,
    ),
    _easy(
        name="books_from_2010_to_2015_by_year",
        question="List the titles of the books published from 2010 to 2015, sorted by the year, earliest first.",
        sql=("SELECT title FROM books WHERE published_year >= 2010 AND published_year <= 2015 ORDER BY published_year"),
        ordered=True,
    ),
    _easy(
        name="average_pages_of_novels",
        question="What is the average number of pages of the books in the genre 'novel'?",
        sql="SELECT AVG(pages) FROM books WHERE genre = 'novel'",
        ordered=False,
    ),
    _medium(
        name="science_books_with_their_authors",
        question="List the title and the name of the author of each book in the genre 'science'.",
        sql=(
            "SELECT books.title, authors.name FROM books JOIN authors ON books.author_id = authors.author_id "
            "WHERE books.genre = 'science'"
        ),
        ordered=False,
    ),
    _medium(
        name="number_of_books_in_each_genre",
        question="For each genre, list the genre and the number of books.",
        sql="SELECT genre, COUNT(*) FROM books GROUP BY genre",
        ordered=False,
    ),
    _medium(
        name="authors_with_exactly_one_book",
        question="List the names of the authors with exactly one book.",
        sql=(
            "SELECT a.name FROM authors AS a JOIN books AS b ON a.author_id = b.author_id "
            "GROUP BY a.author_id HAVING COUNT(*) = 1"
        ),
        ordered=False,
    ),
    _medium(
        name="number_of_loans_of_one_member",
        question="How many loans does the member Carla Nunes have?",
        sql=(
            "SELECT COUNT(*) FROM loans JOIN members ON loans.member_id = members.member_id "
            "WHERE members.name = 'Carla Nunes'"
        ),
        ordered=False,
    ),
    _medium(
        name="most_pages_in_each_genre",
        question="For each genre, list the genre and the number of pages of its longest book, longest book first.",
        sql="SELECT genre, MAX(pages) FROM books GROUP BY genre ORDER BY MAX(pages) DESC",
        ordered=True,
    ),
    _medium(
        name="members_with_a_loan_not_yet_returned",
        question="List the names of the members with a loan that is not yet returned. List each name only once.",
        sql=(
            "SELECT DISTINCT m.name FROM members m JOIN loans l ON m.member_id = l.member_id "
            "WHERE l.returned_on IS NULL"
        ),
        ordered=False,
    ),
    _hard(
        name="titles_that_one_member_borrowed",
        question=(
            "List the titles of the books that the member Alice Moreau borrowed, sorted by the date of the loan, "
            "latest first."
        ),
        sql=(
            "SELECT b.title FROM books b JOIN loans l ON b.book_id = l.book_id "
            "JOIN members m ON l.member_id = m.member_id WHERE m.name = 'Alice Moreau' ORDER BY l.loaned_on DESC"
        ),
        ordered=True,
    ),
    _hard(
        name="members_who_returned_a_book_late",
        question="List the names of the members who returned a book after its due date. List each name only once.",
        sql=(
            "SELECT DISTINCT members.name FROM members JOIN loans ON members.member_id = loans.member_id "
            "WHERE loans.returned_on > loans.due_on"
        ),
        ordered=False,
    ),
    _hard(
        name="titles_that_were_never_loaned",
        question="List the titles of the books that were never loaned.",
        sql="SELECT title FROM books WHERE book_id NOT IN (SELECT book_id FROM loans)",
        ordered=False,
    ),
    _hard(
        name="members_who_borrowed_from_one_author",
        question=(
            "List the names of the members who borrowed a book by the author Marta Lindqvist. List each name only once."
        ),
        sql=(
            "SELECT DISTINCT m.name FROM members m JOIN loans l ON m.member_id = l.member_id "
            "JOIN books b ON l.book_id = b.book_id JOIN authors a ON b.author_id = a.author_id "
            "WHERE a.name = 'Marta Lindqvist'"
        ),
        ordered=False,
    ),
]
