"""Twenty questions about the coffee shop: ten easy, seven medium, three hard."""

from __future__ import annotations

from functools import partial
from typing import Final

from benchmarks.quality.sql_task import SqlTask

__all__ = ["COFFEE_SHOP"]

_easy = partial(SqlTask, database="coffee_shop", difficulty="easy")
_medium = partial(SqlTask, database="coffee_shop", difficulty="medium")
_hard = partial(SqlTask, database="coffee_shop", difficulty="hard")

COFFEE_SHOP: Final[list[SqlTask]] = [
    _easy(
        name="products_cheaper_than_a_price",
        question="List the names of the products with a price below 2.60.",
        sql="SELECT name FROM products WHERE price < 2.60",
        ordered=False,
    ),
    _easy(
        name="names_and_prices_of_teas",
        question="List the name and the price of each product in the category 'tea'.",
        sql="SELECT name, price FROM products WHERE category = 'tea'",
        ordered=False,
    ),
    _easy(
        name="number_of_customers_in_basel",
        question="How many customers live in Basel?",
        sql="SELECT COUNT(*) FROM customers WHERE city = 'Basel'",
        ordered=False,
    ),
    _easy(
        name="name_of_the_most_expensive_product",
        question="What is the name of the product with the highest price?",
        sql="SELECT name FROM products ORDER BY price DESC LIMIT 1",
        ordered=False,
    ),
    _easy(
        name="different_cities_of_customers",
        question="List the cities where customers live. List each city only once.",
        sql="SELECT DISTINCT city FROM customers",
        ordered=False,
    ),
    _easy(
        name="average_price_of_pastries",
        question="What is the average price of the products in the category 'pastry'? Do not round it.",
        sql="SELECT AVG(price) FROM products WHERE category = 'pastry'",
        ordered=False,
    ),
    _easy(
        name="products_out_of_stock",
        question="List the names of the products with a stock of 0.",
        sql="SELECT name FROM products WHERE stock = 0",
        ordered=False,
    ),
    _easy(
        name="customers_without_email",
        question="List the names of the customers whose email is unknown.",
        sql="SELECT name FROM customers WHERE email IS NULL",
        ordered=False,
    ),
    _easy(
        name="customers_who_joined_in_2024",
        question="List the names of the customers who joined in 2024, sorted by the date they joined, earliest first.",
        sql="SELECT name FROM customers WHERE joined_on LIKE '2024-%' ORDER BY joined_on",
        ordered=True,
    ),
    _easy(
        name="three_cheapest_products",
        question="List the name and the price of the three products with the lowest prices, cheapest first.",
        sql="SELECT name, price FROM products ORDER BY price LIMIT 3",
        ordered=True,
    ),
    _medium(
        name="number_of_products_in_each_category",
        question="For each category, list the category and the number of products in it.",
        sql="SELECT category, COUNT(*) FROM products GROUP BY category",
        ordered=False,
    ),
    _medium(
        name="payment_methods_by_number_of_orders",
        question=(
            "For each payment method, list the payment method and the number of orders paid with it, sorted by the "
            "number of orders, lowest first."
        ),
        sql="SELECT payment_method, COUNT(*) FROM orders GROUP BY payment_method ORDER BY COUNT(*)",
        ordered=True,
    ),
    _medium(
        name="order_dates_of_one_customer",
        question="List the dates of the orders of the customer Ana Keller, latest first.",
        sql=(
            "SELECT orders.ordered_on FROM orders JOIN customers ON orders.customer_id = customers.customer_id "
            "WHERE customers.name = 'Ana Keller' ORDER BY orders.ordered_on DESC"
        ),
        ordered=True,
    ),
    _medium(
        name="total_quantity_of_croissants",
        question="What is the total quantity ordered of the product 'Croissant'?",
        sql=(
            "SELECT SUM(order_items.quantity) FROM order_items "
            "JOIN products ON order_items.product_id = products.product_id WHERE products.name = 'Croissant'"
        ),
        ordered=False,
    ),
    _medium(
        name="cities_with_more_than_two_customers",
        question="List the city and the number of customers of each city with more than two customers.",
        sql="SELECT city, COUNT(*) FROM customers GROUP BY city HAVING COUNT(*) > 2",
        ordered=False,
    ),
    _medium(
        name="customers_who_paid_with_cash",
        question="List the names of the customers who have an order paid with cash. List each name only once.",
        sql=(
            "SELECT DISTINCT c.name FROM customers AS c JOIN orders AS o ON c.customer_id = o.customer_id "
            "WHERE o.payment_method = 'cash'"
        ),
        ordered=False,
    ),
    _medium(
        name="total_quantity_ordered_by_category",
        question="For each category, list the category and the total quantity ordered of its products.",
        sql=(
            "SELECT p.category, SUM(oi.quantity) FROM order_items oi JOIN products p ON oi.product_id = p.product_id "
            "GROUP BY p.category"
        ),
        ordered=False,
    ),
    _hard(
        name="customers_who_ordered_a_cappuccino",
        question="List the names of the customers who ordered the product 'Cappuccino'. List each name only once.",
        sql=(
            "SELECT DISTINCT c.name FROM customers c JOIN orders o ON c.customer_id = o.customer_id "
            "JOIN order_items oi ON o.order_id = oi.order_id JOIN products p ON oi.product_id = p.product_id "
            "WHERE p.name = 'Cappuccino'"
        ),
        ordered=False,
    ),
    _hard(
        name="products_that_were_never_ordered",
        question="List the names of the products that were never ordered.",
        sql="SELECT name FROM products WHERE product_id NOT IN (SELECT product_id FROM order_items)",
        ordered=False,
    ),
    _hard(
        name="products_above_the_average_price",
        question="List the names of the products whose price is above the average price of all products.",
        sql="SELECT name FROM products WHERE price > (SELECT AVG(price) FROM products)",
        ordered=False,
    ),
]
