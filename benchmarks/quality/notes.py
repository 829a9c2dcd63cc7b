"""Ten extraction tasks on notes and reviews; one is in Spanish."""

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
    integer,
    nullable,
    number,
    text,
)

__all__ = ["NOTES"]

NOTES: Final[list[Task]] = [
    Task(
        name="minutes_of_team_meeting",
        text=(
            "Meeting 24 Feb 2026, present: Amir, Sofie, Bo. Karl is ill.\n"
            "1. Amir updates the price list by 2 March 2026.\n"
            "2. Sofie calls the packaging supplier by 27 Feb 2026.\n"
            "New logo postponed to summer. Budget for the fair: 4,500 euros, last year 3,800.\n"
            "Next meeting on 10 March 2026."
        ),
        schema=closed_object(
            meeting_date=date(),
            people_present=array(text(16), 8),
            people_absent=array(text(16), 8),
            open_tasks=array(closed_object(responsible_person=text(16), due_date=date())),
            budget_for_fair=number(0, 99999),
            next_meeting_date=nullable(date()),
        ),
        answer={
            "meeting_date": "2026-02-24",
            "people_present": ["Amir", "Sofie", "Bo"],
            "people_absent": ["Karl"],
            "open_tasks": [
                {"responsible_person": "Amir", "due_date": "2026-03-02"},
                {"responsible_person": "Sofie", "due_date": "2026-02-27"},
            ],
            "budget_for_fair": 4500,
            "next_meeting_date": "2026-03-10",
        },
    ),
    Task(
        name="review_of_headphones",
        text=(
            "Bought these Sonora K2 headphones for 89 euros, now in use for four months. The sound is great and the "
            "battery lasts 30 hours. The ear pads, though, started to peel after ten weeks, and support never answered "
            "my two mails. 3 out of 5 stars. For the price I would still buy them again. My old ones from Tarn lasted "
            "six years!"
        ),
        schema=closed_object(
            product_name=text(),
            price_paid=number(0, 9999),
            months_in_use=integer(0, 120),
            star_rating=integer(1, 5),
            battery_life_in_hours=integer(0, 999),
            part_that_wears_out=text(24),
            support_answered=boolean(),
            would_buy_again=boolean(),
        ),
        answer={
            "product_name": ("Sonora K2", "Sonora K2 headphones"),
            "price_paid": 89,
            "months_in_use": 4,
            "star_rating": 3,
            "battery_life_in_hours": 30,
            "part_that_wears_out": ("ear pads", "ear pad", "the ear pads"),
            "support_answered": False,
            "would_buy_again": True,
        },
    ),
    Task(
        name="spanish_restaurant_review",
        text=(
            "Cenamos cuatro personas en La Barca Azul el 8 de noviembre de 2025. El arroz negro estaba riquísimo y la "
            "camarera fue muy atenta. Lo malo: esperamos 50 minutos y en la mesa de al lado había mucho ruido. Pagamos "
            "132 euros en total, vino incluido. Teníamos reserva para las 21:00. Le doy 4 de 5 y volveremos con mis "
            "padres."
        ),
        schema=closed_object(
            restaurant_name=text(),
            visit_date=date(),
            number_of_guests=integer(1, 50),
            reservation_time=nullable(clock_time()),
            praised_dish=text(),
            waiting_minutes=integer(0, 300),
            total_bill=number(0, 9999),
            rating_out_of_five=integer(1, 5),
        ),
        answer={
            "restaurant_name": "La Barca Azul",
            "visit_date": "2025-11-08",
            "number_of_guests": 4,
            "reservation_time": "21:00",
            "praised_dish": ("arroz negro", "el arroz negro"),
            "waiting_minutes": 50,
            "total_bill": 132,
            "rating_out_of_five": 4,
        },
    ),
    Task(
        name="note_of_veterinary_visit",
        text=(
            "Patient: Luna, female cat, 6 years, 4.3 kg (4.8 kg in January). Owner: Mr Dvorak. Not eating since "
            "Sunday, no vomiting. Temperature 39.6. Upper molar broken, gum inflamed. Gave painkiller, 0.2 ml. "
            "Extraction planned for 13 March 2026, fasting from the evening before. Vaccinations up to date, chip "
            "941-0027."
        ),
        schema=closed_object(
            animal_name=text(16),
            species=choice("dog", "cat", "rabbit", "bird", "other"),
            owner_name=text(24),
            weight_in_kg=number(0, 200, "on the day of the note"),
            temperature_in_celsius=number(30, 45),
            location_of_problem=choice("teeth", "stomach", "skin", "ears", about="what the planned treatment is for"),
            treatment_date=date(),
            is_vaccinated=boolean(),
        ),
        answer={
            "animal_name": "Luna",
            "species": "cat",
            "owner_name": ("Mr Dvorak", "Dvorak", "Mr. Dvorak"),
            "weight_in_kg": 4.3,
            "temperature_in_celsius": 39.6,
            "location_of_problem": "teeth",
            "treatment_date": "2026-03-13",
            "is_vaccinated": True,
        },
    ),
    Task(
        name="flat_handover_protocol",
        text=(
            "Handover of flat 12, Elm Court, 31 May 2026. Meters: electricity 30,118, water 442. Keys returned: 3 of "
            "4, the cellar key is missing. Defects: scratch in the living room floor, kitchen tap drips. Walls freshly "
            "painted, fine. Tenant Ms Nowak moves to Leeds. Of the deposit of 1,500, 120 is kept for the key. The "
            "landlord agrees."
        ),
        schema=closed_object(
            flat_number=integer(0, 999),
            handover_date=date(),
            tenant_name=text(24),
            meter_readings=closed_object(electricity=integer(0, 999999), water=integer(0, 999999)),
            missing_keys=integer(0, 20),
            rooms_with_defects=array(choice("living_room", "kitchen", "bathroom", "bedroom", "cellar")),
            deposit_kept=number(0, 99999),
            walls_need_paint=boolean(),
        ),
        answer={
            "flat_number": 12,
            "handover_date": "2026-05-31",
            "tenant_name": ("Ms Nowak", "Nowak", "Ms. Nowak"),
            "meter_readings": {"electricity": 30118, "water": 442},
            "missing_keys": 1,
            "rooms_with_defects": ["living_room", "kitchen"],
            "deposit_kept": 120,
            "walls_need_paint": False,
        },
    ),
    Task(
        name="hotel_review_with_room_change",
        text=(
            "Stayed three nights in late June, at first in room 407. Location: five minutes from the station, perfect. "
            "Breakfast was awful, cold eggs and instant coffee. At night the lift kept us awake. After we complained, "
            "reception moved us to room 212 on the second day, well done. I was here in 2022 and the food was better "
            "then. Cleanliness: not a speck of dust anywhere."
        ),
        schema=closed_object(
            nights_stayed=integer(1, 30),
            first_room_number=integer(0, 9999),
            second_room_number=nullable(integer(0, 9999)),
            opinions=closed_object(
                location=choice("positive", "negative", "not_mentioned"),
                breakfast=choice("positive", "negative", "not_mentioned"),
                cleanliness=choice("positive", "negative", "not_mentioned"),
                internet=choice("positive", "negative", "not_mentioned"),
            ),
            source_of_noise=text(24),
            year_of_earlier_stay=nullable(integer(1950, 2050)),
            price_per_night=nullable(number(0, 9999)),
        ),
        answer={
            "nights_stayed": 3,
            "first_room_number": 407,
            "second_room_number": 212,
            "opinions": {
                "location": "positive",
                "breakfast": "negative",
                "cleanliness": "positive",
                "internet": "not_mentioned",
            },
            "source_of_noise": ("lift", "the lift"),
            "year_of_earlier_stay": 2022,
            "price_per_night": None,
        },
    ),
    Task(
        name="note_of_phone_call",
        text=(
            "Phone note, Thursday 10:20: Mrs Abbott from Redhill Nursery called and would like Oskar to call back, "
            "best tomorrow before 11:00. It is about the quote for 3 raised beds: she thinks that 1,140 euros is too "
            "much, Gardenway asks 990. Number 01737 555 204, NOT the old one ending in 190. Not urgent, she decides "
            "next month. - Pia"
        ),
        schema=closed_object(
            caller_name=text(24),
            caller_company=text(),
            colleague_to_call_back=text(24, "who should return the call"),
            callback_number=text(20),
            call_time=clock_time("when the caller phoned"),
            topic_of_call=choice("price", "delivery", "product_quality", "appointment"),
            competing_price=nullable(number(0, 99999)),
            is_urgent=boolean(),
        ),
        answer={
            "caller_name": ("Mrs Abbott", "Abbott", "Mrs. Abbott"),
            "caller_company": "Redhill Nursery",
            "colleague_to_call_back": "Oskar",
            "callback_number": ("01737 555 204", "01737555204", "01737 555204"),
            "call_time": "10:20",
            "topic_of_call": "price",
            "competing_price": 990,
            "is_urgent": False,
        },
    ),
    Task(
        name="lentil_soup_recipe_card",
        text=(
            "Grandma's lentil soup. Serves 4, takes 45 minutes, of which 15 to prepare. 250 g red lentils, 2 carrots, "
            "1 onion, 800 ml vegetable stock. Fry the onion, add the rest, simmer for 30 minutes. For 6 people take "
            "400 g lentils. No cream! Tastes better the next day. Written down on 3 May 1998."
        ),
        schema=closed_object(
            recipe_name=text(),
            number_of_servings=integer(1, 50),
            total_minutes=integer(0, 999),
            simmering_minutes=integer(0, 999),
            ingredients=array(
                closed_object(
                    ingredient_name=text(24), amount=number(0, 9999), unit=choice("gram", "millilitre", "piece")
                ),
                8,
            ),
            contains_cream=boolean(),
            calories_per_serving=nullable(integer(0, 9999)),
        ),
        answer={
            "recipe_name": ("lentil soup", "Grandma's lentil soup"),
            "number_of_servings": 4,
            "total_minutes": 45,
            "simmering_minutes": 30,
            "ingredients": [
                {"ingredient_name": ("red lentils", "lentils"), "amount": 250, "unit": "gram"},
                {"ingredient_name": ("carrots", "carrot"), "amount": 2, "unit": "piece"},
                {"ingredient_name": ("onion", "onions"), "amount": 1, "unit": "piece"},
                {"ingredient_name": ("vegetable stock", "stock"), "amount": 800, "unit": "millilitre"},
            ],
            "contains_cream": False,
            "calories_per_serving": None,
        },
    ),
    Task(
        name="workshop_note_on_brakes",
        text=(
            "Workshop note, job 2291: grey van, plate KN-71-TR, 143,600 km. Customer hears squeaking when braking. "
            "Front pads 2 mm, will be replaced; rear pads 7 mm, fine. Oil was changed at 130,000 km, next change due "
            "at 150,000 km, customer does not want it now. Left headlight bulb replaced. Estimate 310 euros with "
            "parts, agreed on the phone at 11:45. Ready on Wednesday at 17:00."
        ),
        schema=closed_object(
            job_number=text(12),
            licence_plate=text(16),
            mileage_in_km=integer(0, 999999, "today"),
            front_pad_thickness_in_mm=number(0, 30),
            pads_to_replace=choice("none", "front", "rear", "front_and_rear"),
            oil_change_now=boolean(),
            estimated_cost=number(0, 99999),
            pickup_time=clock_time("when the car is ready"),
        ),
        answer={
            "job_number": "2291",
            "licence_plate": ("KN-71-TR", "KN 71 TR"),
            "mileage_in_km": 143600,
            "front_pad_thickness_in_mm": 2,
            "pads_to_replace": "front",
            "oil_change_now": False,
            "estimated_cost": 310,
            "pickup_time": "17:00",
        },
    ),
    Task(
        name="app_review_after_update",
        text=(
            "Version 5.2 of PocketGarden broke the watering reminders: since the update on 30 August 2025 I get each "
            "of them twice. 5.1 was fine. I use a Pixel 6 with Android 15. The new plant scanner is lovely and "
            "recognised 9 of my 10 plants. I went from five stars down to two until it is fixed. Paid 4.99 for Pro, no "
            "regrets about that."
        ),
        schema=closed_object(
            app_name=text(24),
            faulty_version=text(8),
            last_working_version=text(8),
            update_date=date(),
            kind_of_problem=choice("duplicate_reminders", "missing_reminders", "crash", "data_loss"),
            current_star_rating=integer(1, 5),
            previous_star_rating=nullable(integer(1, 5)),
            praised_feature=text(),
        ),
        answer={
            "app_name": "PocketGarden",
            "faulty_version": "5.2",
            "last_working_version": "5.1",
            "update_date": "2025-08-30",
            "kind_of_problem": "duplicate_reminders",
            "current_star_rating": 2,
            "previous_star_rating": 5,
            "praised_feature": ("plant scanner", "the plant scanner", "new plant scanner", "the new plant scanner"),
        },
    ),
]
