"""Ten extraction tasks on e-mails: orders, complaints and appointments; one is in French, one in Portuguese."""

from __future__ import annotations

from typing import Final

from benchmarks.quality.task import (
    Task,
    array,
    boolean,
    choice,
    clock_time,
    closed_object,
    date,
    email,
    integer,
    nullable,
    number,
    text,
)

__all__ = ["EMAILS"]

EMAILS: Final[list[Task]] = [
    Task(
        name="order_with_corrected_quantity",
        text=(
            "Hi, this is about my order from this morning (no. 60417). I wrote 20 kg of espresso beans, but I meant 12 "
            "kg. Please also add 4 packs of paper filters. Deliver on Friday, 9 January 2026, to our branch in Mill "
            "Lane 27, not to the main shop in Cross Street 5. Send the invoice as always to office@cafe-lumen.example."
            "\nThanks, Dora Vance"
        ),
        schema=closed_object(
            order_number=text(16),
            changed_items=array(
                closed_object(
                    product_name=text(), quantity=integer(0, 999), unit=choice("kilogram", "pack", "litre", "piece")
                ),
                about="what this message corrects or adds, with the new quantities",
            ),
            delivery_date=date(),
            delivery_address=text(),
            invoice_email=email(),
            customer_name=text(),
        ),
        answer={
            "order_number": "60417",
            "changed_items": [
                {"product_name": ("espresso beans", "espresso bean"), "quantity": 12, "unit": "kilogram"},
                {"product_name": ("paper filters", "paper filter"), "quantity": 4, "unit": "pack"},
            ],
            "delivery_date": "2026-01-09",
            "delivery_address": ("Mill Lane 27", "branch in Mill Lane 27", "our branch in Mill Lane 27"),
            "invoice_email": "office@cafe-lumen.example",
            "customer_name": "Dora Vance",
        },
    ),
    Task(
        name="complaint_about_broken_vase",
        text=(
            "Order 7730-12, blue ceramic vase. The parcel arrived on 3 April, two days late, and the vase was in "
            "pieces; the box had no padding at all. I do not want another one, please just give me my 54.90 euros "
            "back. I attached three photos. It was meant as a present for my sister's birthday on 4 April.\n"
            "Very disappointed, Hanna Kruse"
        ),
        schema=closed_object(
            order_number=text(16),
            product_name=text(),
            kind_of_problem=choice("damaged_product", "missing_product", "wrong_product", "wrong_invoice"),
            arrived_late=boolean(),
            requested_solution=choice("refund", "replacement", "repair", "discount"),
            amount_to_refund=number(0, 9999),
            number_of_photos=integer(0, 20),
            customer_name=text(),
        ),
        answer={
            "order_number": "7730-12",
            "product_name": ("blue ceramic vase", "ceramic vase", "vase"),
            "kind_of_problem": "damaged_product",
            "arrived_late": True,
            "requested_solution": "refund",
            "amount_to_refund": 54.9,
            "number_of_photos": 3,
            "customer_name": "Hanna Kruse",
        },
    ),
    Task(
        name="doctor_appointment_moved",
        text=(
            "Hello, unfortunately I cannot come on the 16th. Could I come on 18 June at 09:40 instead, as your "
            "receptionist offered on the phone? I still need the blood test; the eye check is already done. My "
            "insurance number is K 552 108.\n"
            "Best, Samuel Adeyemi\n"
            "> On Monday Dr Feld's practice wrote:\n"
            "> We confirm your appointment on 16 June 2026 at 08:15."
        ),
        schema=closed_object(
            patient_name=text(),
            doctor_name=text(24),
            insurance_number=text(16),
            old_appointment=closed_object(date=date(), time=clock_time()),
            requested_appointment=closed_object(date=date(), time=clock_time()),
            needed_examination=choice("blood_test", "eye_check", "x_ray", "vaccination"),
        ),
        answer={
            "patient_name": "Samuel Adeyemi",
            "doctor_name": ("Dr Feld", "Feld", "Dr. Feld"),
            "insurance_number": ("K 552 108", "K552108"),
            "old_appointment": {"date": "2026-06-16", "time": "08:15"},
            "requested_appointment": {"date": "2026-06-18", "time": "09:40"},
            "needed_examination": "blood_test",
        },
    ),
    Task(
        name="french_complaint_about_late_train",
        text=(
            "Bonjour,\n"
            "le 12 septembre 2025, mon train 6621 de Dijon à Marseille est arrivé avec 95 minutes de retard. J'ai donc "
            "manqué ma correspondance pour Nice et j'ai dû payer un taxi, 48 euros. Mon billet coûtait 61 euros. Je "
            "demande seulement le remboursement du taxi ; vous trouverez le reçu en pièce jointe. Le contrôleur a été "
            "très aimable.\n"
            "Cordialement, Claire Dumas"
        ),
        schema=closed_object(
            passenger_name=text(),
            travel_date=date(),
            train_number=text(12),
            departure_city=text(24),
            arrival_city=text(24, "where the delayed train arrived"),
            delay_in_minutes=integer(0, 999),
            requested_refund=number(0, 9999, "in euros"),
            missed_connection=boolean(),
        ),
        answer={
            "passenger_name": "Claire Dumas",
            "travel_date": "2025-09-12",
            "train_number": ("6621", "train 6621"),
            "departure_city": "Dijon",
            "arrival_city": "Marseille",
            "delay_in_minutes": 95,
            "requested_refund": 48,
            "missed_connection": True,
        },
    ),
    Task(
        name="portuguese_bakery_order",
        text=(
            "Bom dia, queria encomendar 30 pastéis de nata e 2 bolos de laranja para sábado, 14 de março de 2026. "
            "Passo aí às 10h30 para levantar, não é preciso entregar. Os bolos devem ser sem nozes, por causa de uma "
            "alergia. Na semana passada paguei em dinheiro, desta vez pago com cartão na loja.\n"
            "Obrigada, Teresa Nogueira, 912 555 018"
        ),
        schema=closed_object(
            customer_name=text(),
            phone_number=nullable(text(16)),
            ordered_items=array(closed_object(product_name=text(), quantity=integer(0, 999))),
            pickup_date=date(),
            pickup_time=clock_time(),
            needs_delivery=boolean(),
            allergen_to_avoid=nullable(choice("gluten", "milk", "eggs", "nuts")),
            payment_method=choice("cash", "card", "bank_transfer"),
        ),
        answer={
            "customer_name": "Teresa Nogueira",
            "phone_number": ("912 555 018", "912555018"),
            "ordered_items": [
                {"product_name": ("pastéis de nata", "pastel de nata"), "quantity": 30},
                {"product_name": ("bolos de laranja", "bolo de laranja"), "quantity": 2},
            ],
            "pickup_date": "2026-03-14",
            "pickup_time": "10:30",
            "needs_delivery": False,
            "allergen_to_avoid": "nuts",
            "payment_method": "card",
        },
    ),
    Task(
        name="flat_viewing_appointment",
        text=(
            "Dear Ms Orlova,\n"
            "thank you for your interest in the flat in Tannenstrasse 19. Of the three dates that you proposed (2, 3 "
            "and 5 February 2026) only Tuesday the 3rd suits us. Please come at 17:30 and ring at Berger. The flat has "
            "3 rooms and 74 square metres; the rent is 980 euros plus 210 euros for heating. It is free from 1 April "
            "2026. Unfortunately we cannot accept pets.\n"
            "R. Berger"
        ),
        schema=closed_object(
            applicant_name=text(24),
            flat_address=text(),
            viewing_date=date(),
            viewing_time=clock_time(),
            number_of_rooms=integer(1, 20),
            rent_without_heating=number(0, 9999),
            available_from=date(),
            pets_allowed=boolean(),
        ),
        answer={
            "applicant_name": ("Ms Orlova", "Orlova", "Ms. Orlova"),
            "flat_address": ("Tannenstrasse 19", "flat in Tannenstrasse 19"),
            "viewing_date": "2026-02-03",
            "viewing_time": "17:30",
            "number_of_rooms": 3,
            "rent_without_heating": 980,
            "available_from": "2026-04-01",
            "pets_allowed": False,
        },
    ),
    Task(
        name="hotel_booking_extended",
        text=(
            "Booking HT-20418, name Fournier. We booked one double room from 10 to 14 October 2026. We would like to "
            "stay one night longer, so please make it until 15 October. We come by car and need a parking space; last "
            "year it cost 12 euros per night. We arrive late, at 22:00. Ms Haas confirmed the rate of 118 euros per "
            "night on the phone, also for the extra night."
        ),
        schema=closed_object(
            booking_number=text(16),
            guest_last_name=text(24),
            kind_of_room=choice("single", "double", "family", "suite"),
            check_in_date=date(),
            check_out_date=date("after the change"),
            needs_parking=boolean(),
            arrival_time=clock_time(),
            room_price_per_night=number(0, 9999),
        ),
        answer={
            "booking_number": "HT-20418",
            "guest_last_name": "Fournier",
            "kind_of_room": "double",
            "check_in_date": "2026-10-10",
            "check_out_date": "2026-10-15",
            "needs_parking": True,
            "arrival_time": "22:00",
            "room_price_per_night": 118,
        },
    ),
    Task(
        name="locked_account_of_colleague",
        text=(
            "From: Elif Demir <e.demir@orbisfoods.example>\n"
            "To: support@paylane.example\n"
            "Subject: Re: Ticket 51877\n"
            "The reset link that you sent works, thank you, so my own access is fine again. But my colleague Jonas "
            '(j.wirth@orbisfoods.example) cannot log in: the page says "too many attempts, account locked". He needs '
            "access before payroll on 25 November. Please unlock him; there is no need to call."
        ),
        schema=closed_object(
            ticket_number=text(12),
            sender_name=text(),
            sender_email=email(),
            affected_user_email=email("of the user who cannot log in now"),
            kind_of_problem=choice("account_locked", "forgotten_password", "payment_failed", "slow_page"),
            own_access_works=boolean("whether the sender can log in again"),
            wants_phone_call=boolean(),
            phone_number=nullable(text(20)),
        ),
        answer={
            "ticket_number": "51877",
            "sender_name": "Elif Demir",
            "sender_email": "e.demir@orbisfoods.example",
            "affected_user_email": "j.wirth@orbisfoods.example",
            "kind_of_problem": "account_locked",
            "own_access_works": True,
            "wants_phone_call": False,
            "phone_number": None,
        },
    ),
    Task(
        name="school_absence_of_one_child",
        text=(
            "Good morning, my daughter Mia Castell, class 4b, has had a fever since last night and stays at home "
            "today, 2 December 2025. Her brother Leo (class 2a) is well and comes as usual. We expect her back on "
            "Thursday, 4 December. Please give her homework to Leo. She is excused from the swimming lesson this week "
            "in any case.\n"
            "Joan Castell"
        ),
        schema=closed_object(
            child_name=text(),
            class_name=text(8),
            reason_for_absence=choice("illness", "family_event", "doctor_visit", "travel"),
            first_day_of_absence=date(),
            expected_return_date=date(),
            homework_recipient=text(24),
            parent_name=text(),
            doctor_name=nullable(text(24)),
        ),
        answer={
            "child_name": ("Mia Castell", "Mia"),
            "class_name": ("4b", "class 4b"),
            "reason_for_absence": "illness",
            "first_day_of_absence": "2025-12-02",
            "expected_return_date": "2025-12-04",
            "homework_recipient": ("Leo", "Leo Castell", "her brother Leo", "brother Leo"),
            "parent_name": "Joan Castell",
            "doctor_name": None,
        },
    ),
    Task(
        name="supplier_announces_delay",
        text=(
            "Hello Ravi, a short update on purchase order 45-8800: the 600 steel brackets leave our plant today and "
            "will reach you on 19 March 2026 as agreed. The 250 hinges, however, are delayed, since our coating line "
            "broke down for three days. New date for the hinges: 27 March instead of 19 March. We pay for express "
            "shipping. The offer for drawer slides follows next week. Sorry!\n"
            "Ewa, Brightform Ltd"
        ),
        schema=closed_object(
            purchase_order_number=text(16),
            supplier_company=text(),
            delayed_product=text(24),
            delayed_quantity=integer(0, 9999),
            agreed_delivery_date=date(),
            new_delivery_date=date(),
            cause_of_delay=choice("machine_failure", "missing_material", "transport_problem", "strike"),
            express_shipping_paid_by=choice("supplier", "customer"),
        ),
        answer={
            "purchase_order_number": "45-8800",
            "supplier_company": ("Brightform Ltd", "Brightform"),
            "delayed_product": ("hinges", "hinge"),
            "delayed_quantity": 250,
            "agreed_delivery_date": "2026-03-19",
            "new_delivery_date": "2026-03-27",
            "cause_of_delay": "machine_failure",
            "express_shipping_paid_by": "supplier",
        },
    ),
]
